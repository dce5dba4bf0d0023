"""Verbs that launch, change, stop, list and delete experiments."""

from __future__ import annotations

import argparse
import sys
import time

from nniweb.client.commands import deletion_confirmed
from nniweb.client.errors import ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.own_server import launch_in_place
from nniweb.client.running import follow
from nniweb.client.words import experiments_table
from nniweb.nnictl.results import read_json
from nniweb.nnictl.session import Session
from nniweb.storage.own_files import COMMAND

_CLEAR = "\x1b[2J\x1b[H"


def create(session: Session, options: argparse.Namespace) -> None:
    if options.url_prefix:
        session.refuse("--url_prefix has no meaning here: all experiments are pages of one server. A proxy before it "
                       "decides its address (docs/deploy).")
    session.port = options.port
    experiment, why_copied = launch_in_place(session.client, options.config)
    session.say(f"Experiment {experiment.id} was launched: {experiment.name}")
    for note in [*experiment.document["notes"], *([why_copied] if why_copied else [])]:
        session.say(f"Note: {note}")
    _say_where(session, options, experiment)


def resume(session: Session, options: argparse.Namespace) -> None:
    _no_folder(session, options)
    session.port = options.port
    experiment = session.experiment(options.id).resume()
    session.say(f"Experiment {experiment.id} continues: {experiment.name}")
    _say_where(session, options, experiment)


def view(session: Session, options: argparse.Namespace) -> None:
    _no_folder(session, options)
    session.port = options.port
    experiment = session.experiment(options.id)
    session.say(f"Experiment {experiment.id} ({experiment.name}) is {experiment.status}. Ended experiments stay "
                f"visible: {experiment.url}")


def _no_folder(session: Session, options: argparse.Namespace) -> None:
    if options.experiment_dir:
        session.refuse(f"--experiment_dir: give the folder to {COMMAND} import_nni FOLDER, with --continue to go on.")


def _say_where(session: Session, options: argparse.Namespace, experiment: Experiment) -> None:
    session.say(f"Its page: {experiment.url}")
    if options.port is not None and not session.client.server.endswith(f":{options.port}"):
        session.say(f"Port {options.port} was not opened, because one server has all experiments. For NNI's own "
                    f"clients, open it on the server's machine: {COMMAND} nni-port {experiment.id} {options.port}")
    if options.foreground:
        follow(session.client, experiment, session.out)


def stop(session: Session, options: argparse.Namespace) -> None:
    if options.port is not None:
        session.refuse("--port: one port has all experiments. Give the id of one, or --all.")
    _check_one_is_meant(session, options)
    if options.everything or options.id == "all":
        wanted = list(session.unfinished())
    elif options.id is not None and options.id.endswith("*"):
        wanted = [each for each in session.unfinished() if each.id.startswith(options.id[:-1])]
    else:
        wanted = [session.experiment(options.id)]
    for experiment in wanted:
        if experiment.has_ended:
            session.say(f"Experiment {experiment.id} is {experiment.status} already.")
        else:
            experiment.stop()
            session.say(f"Experiment {experiment.id} is being stopped: {experiment.name}")
    if not wanted:
        session.say("No experiment runs that would have to be stopped.")


def update(session: Session, options: argparse.Namespace) -> None:
    value: str | int = options.value
    if options.field != "max_duration":
        if not options.value.isascii() or not options.value.isdecimal() or len(options.value) > 9:
            session.refuse(f"--value must be a whole number, not {options.value}.")
        value = int(options.value)
    experiment = session.experiment(options.id)
    experiment.change(**{options.field: value})
    session.say(f"Experiment {experiment.id}: {options.field} is {options.value} now.")


def update_space(session: Session, options: argparse.Namespace) -> None:
    space = read_json(options.filename)
    experiment = session.experiment(options.id)
    experiment.change(search_space=space)
    session.say(f"Experiment {experiment.id} searches the space of {options.filename} now.")


def list_experiments(session: Session, options: argparse.Namespace) -> None:
    found = session.client.experiments(archived="all") if options.everything else session.unfinished()
    if found:
        for line in experiments_table(each.document for each in found):
            session.say(line)
    else:
        session.say("There are no experiments." if options.everything else
                    "No experiment runs. nnictl experiment list --all lists those that have ended.")


def top(session: Session, options: argparse.Namespace) -> None:
    """Until Ctrl-C; on something else than a terminal the lists follow one another."""
    if options.time < 1:
        session.refuse("--time must be at least 1 second.")
    options.everything = False
    try:
        while True:
            if session.out.isatty():
                session.out.write(_CLEAR)
            list_experiments(session, options)
            session.out.flush()
            time.sleep(options.time)
    except KeyboardInterrupt:
        return


def _check_one_is_meant(session: Session, options: argparse.Namespace) -> None:
    """A person who names an experiment does not mean all of them. Raises ClientError."""
    if options.everything and options.id is not None:
        session.refuse("Give the id of an experiment or --all, not both.")


def delete(session: Session, options: argparse.Namespace) -> None:
    _check_one_is_meant(session, options)
    if not options.everything and options.id is None:
        session.refuse("Give the id of the experiment, or --all for all that have ended.")
    wanted = [each for each in session.client.experiments(archived="all") if each.has_ended] if options.everything \
        else [session.experiment(options.id)]
    for experiment in wanted:
        if not sys.stdin.isatty():
            raise ClientError(f"Deleting cannot be undone, and no terminal is here to confirm it. Use {COMMAND} "
                              f"experiments delete {experiment.id} --yes.")
        if deletion_confirmed(experiment, session.err):
            experiment.delete()
            session.say(f"Experiment {experiment.id} was deleted.")
    if not wanted:
        session.say("No experiment has ended.")
