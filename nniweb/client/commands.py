"""``nniweb launch`` and ``nniweb experiments`` with a server elsewhere, by REST."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from nniweb.client import words
from nniweb.client.arguments import (
    EXPERIMENTS_HELP,
    INTERRUPTED,
    LAUNCH_HELP,
    NEW_LIMITS,
    STEERING,
    add_experiments_arguments,
    add_launch_arguments,
)
from nniweb.client.cluster_edits import EDITS, CannotEdit, edited_clusters
from nniweb.client.connection import Client
from nniweb.client.errors import CannotReach, ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.following import MOST_OF_FRONT, UNREACHABLE, Follower, RestFollowed
from nniweb.client.written_file import write_whole
from nniweb.process.unread_output import into_nothing
from trainingservice.limited_json import json_fault
from trainingservice.words.shown_value import shown

#: Exit status where the server refused, or something here was wrong.
FAILED = 1
_SHOWN = 10


def make_parser(command: str) -> argparse.ArgumentParser:
    """Of ``launch`` or ``experiments``."""
    is_launch = command == "launch"
    parser = argparse.ArgumentParser(prog=f"nniweb {command}", allow_abbrev=False,
                                     description=LAUNCH_HELP if is_launch else EXPERIMENTS_HELP)
    (add_launch_arguments if is_launch else add_experiments_arguments)(parser)
    return parser


def run(arguments: list[str], *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Do what the arguments (``launch ...``, ``experiments ...``) say. Returns the exit status; docs/client.md."""
    out, err = out or sys.stdout, err or sys.stderr
    options = make_parser(arguments[0]).parse_args(arguments[1:])

    def command() -> int:
        client = Client(options.server, token_file=options.token_file, ca_file=options.ca_file,
                        on_wait=lambda sentence: tell(err, sentence))
        commands = _Commands(client, out, err)
        return commands.launch(options) if arguments[0] == "launch" else commands.experiments(options)

    return exit_status_of(command, err)


def exit_status_of(command: Callable[[], int], err: TextIO) -> int:
    """Carry it out. Its exit status, or that of the error that it raised and of Ctrl-C, which ``err`` is told."""
    try:
        return command()
    except CannotReach as error:
        tell(err, str(error))
        return UNREACHABLE
    except ClientError as error:
        tell(err, str(error))
        return FAILED
    except KeyboardInterrupt:
        tell(err, "\nStopped here. What runs on the server continues.")
        return INTERRUPTED


def tell(err: TextIO, sentence: str) -> None:
    """Write it where errors go. That nobody reads it, or that the disk is full, changes nothing of what is done."""
    try:
        print(words.printable_lines(sentence), file=err, flush=True)
    except OSError:
        into_nothing(err)


def found_experiment(client: Client, start: str) -> Experiment:
    """The experiment whose id begins so, or that has this name. Raises ClientError unless there is exactly one."""
    found = [each for each in client.experiments(q=start, archived="all")
             if each.id.startswith(start) or each.name == start]
    exact = [each for each in found if each.id == start]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    if not found:
        raise ClientError(f"There is no experiment whose id begins with {shown(start)}, and none of this name, or "
                          "you may not see it. "
                          "`nniweb experiments list --all` lists all experiments that you may see.")
    raise ClientError(f"Several experiments have this name or an id that begins with {shown(start)}: "
                      f"{', '.join(f'{each.name} ({each.id})' for each in found[:6])}.")


def deletion_confirmed(experiment: Experiment, err: TextIO) -> bool:
    """What the person at the terminal answers."""
    err.write(f"Remove {words.printable(experiment.name)} ({experiment.id}), its trials and their data? [y/N] ")
    err.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class _Commands:
    def __init__(self, client: Client, out: TextIO, err: TextIO) -> None:
        self._client = client
        self._out = out
        self._err = err

    def say(self, line: str) -> None:
        self._out.write(f"{words.printable_lines(line)}\n")

    # --- launch ----------------------------------------------------------------------------------------------

    def launch(self, options: argparse.Namespace) -> int:
        if options.user:
            raise ClientError("--user can only be used on the server's own machine. With --server, the token decides "
                              "who owns the experiment.")
        progress = _UploadLine(self._err) if self._err.isatty() else None
        experiment = self._client.launch(options.config, code=options.code, cluster=options.cluster,
                                         git=_git(options), group=options.group, progress=progress)
        if progress is not None:
            progress.end()
        self.say(f"Launched {shown(experiment.name)}, id {experiment.id}")
        self.say(experiment.url)
        self.say(words.visibility_line(experiment.document))
        for note in experiment.document["notes"]:
            self.say(f"Note: {note}")
        return self.follow(experiment) if options.follow else 0

    def follow(self, experiment: Experiment) -> int:
        follower = Follower(RestFollowed(self._client, experiment), self._out)
        try:
            return follower.follow()
        except KeyboardInterrupt:
            follower.say_it_goes_on("nniweb", experiment.id)
            return INTERRUPTED

    # --- experiments -----------------------------------------------------------------------------------------

    def experiments(self, options: argparse.Namespace) -> int:
        verb = options.verb or "list"
        if verb == "list":
            self._list(options)
            return 0
        experiment = found_experiment(self._client, options.id)
        if verb == "follow":
            return self.follow(experiment)
        if verb in STEERING:
            getattr(experiment, verb.replace("-", "_"))(
                **{name: getattr(options, name) for name in NEW_LIMITS if hasattr(options, name)})
            self.say(f"{experiment.name} ({experiment.id}): {STEERING[verb]}. Its status is {experiment.status}.")
            return 0
        return int(getattr(self, f"_{verb}")(experiment, options) or 0)

    def _list(self, options: argparse.Namespace) -> None:
        every = getattr(options, "everything", False)
        found = [each.document for each in self._client.experiments(archived="all" if every else "false")]
        if getattr(options, "as_json", False):
            self._json(found)
        elif not found:
            self.say("There are no experiments that you may see. Launch one: nniweb launch config.yml")
        else:
            self._lines(words.experiments_table(found))

    def _show(self, experiment: Experiment, options: argparse.Namespace) -> None:
        document = experiment.refresh().document
        if options.as_json:
            self._json(document)
            return
        self._lines(words.experiment_lines(document))
        if document["progress"].get("front") is None:
            best = experiment.best_trial()
            self._lines(words.best_trial_lines(None if best is None else best.document))
        else:
            self._lines(words.front_lines(document, experiment.front(MOST_OF_FRONT)))
        troubled = experiment.trials(status="FAILED,WAITING,UNKNOWN", order="-sequence_id")
        for trial in [each for each in troubled if each["message"]][:_SHOWN]:
            self.say(f"Trial {trial['sequence_id']} ({trial['id']}) {trial['status']}: {trial['message']}")
        self.say(experiment.url)

    def _changes(self, experiment: Experiment, options: argparse.Namespace) -> None:
        found = experiment.changes()
        self._json(found) if options.as_json else self._lines(words.change_lines(found))

    def _clusters(self, experiment: Experiment, options: argparse.Namespace) -> None:
        edits = {name: getattr(options, name) for name in EDITS if getattr(options, name)}
        if edits:
            experiment.refresh()  # lists do not have the clusters
            try:
                wanted = edited_clusters(experiment.document["clusters"], experiment.document["cluster"], edits)
            except CannotEdit as cannot:
                raise ClientError(str(cannot)) from None
            experiment.change_clusters(wanted)
        found = experiment.clusters()
        if options.as_json:
            self._json(found)
        else:
            self._lines(words.clusters_table(found) if found else [
                f"{experiment.name} ({experiment.id}) runs on {experiment.document['cluster']} alone."])

    def _undo(self, experiment: Experiment, options: argparse.Namespace) -> None:
        experiment.undo_change(options.number)
        self.say(f"Change {options.number} of {experiment.name} ({experiment.id}) was undone.")

    def _freeze(self, experiment: Experiment, options: argparse.Namespace) -> None:
        experiment.freeze(*options.numbers)
        self.say(words.frozen_line(f"{experiment.name} ({experiment.id})", options.numbers))

    def _thaw(self, experiment: Experiment, options: argparse.Namespace) -> None:
        experiment.thaw(*options.numbers)
        self.say(words.thawed_line(f"{experiment.name} ({experiment.id})", options.numbers))

    def _rerun(self, experiment: Experiment, options: argparse.Namespace) -> None:
        again = experiment.rerun(options.number, dict(options.changed or ()))
        self.say(words.rerun_line(options.number, again.document))

    def _trials(self, experiment: Experiment, options: argparse.Namespace) -> None:
        found = experiment.trials(options.filter)
        self._json(found) if options.as_json else self._lines(words.trials_table(found))

    def _metrics(self, experiment: Experiment, options: argparse.Namespace) -> None:
        found = experiment.metrics()
        self._json(found) if options.as_json else self._lines(words.metrics_table(found))

    def _delete(self, experiment: Experiment, options: argparse.Namespace) -> int:
        if not options.yes:
            if not sys.stdin.isatty():
                raise ClientError("Deleting cannot be undone. Use --yes to confirm where no terminal is available.")
            if not deletion_confirmed(experiment, self._err):
                self.say("Nothing was removed.")
                return FAILED
        experiment.delete()
        self.say(f"{experiment.name} ({experiment.id}) was deleted.")
        return 0

    def _export(self, experiment: Experiment, options: argparse.Namespace) -> None:
        pieces = experiment.export(options.format, intermediate=options.intermediate, raw=options.raw)
        path: Path | None = options.output
        if path is None:
            for piece in pieces:
                self._out.buffer.write(piece)
            self._out.flush()
            return
        write_whole(path, pieces)
        tell(self._err, f"Written to {path}.")

    def _import(self, experiment: Experiment, options: argparse.Namespace) -> None:
        try:
            results = json.loads(options.filename.read_bytes())
        except OSError as error:
            raise ClientError(f"{options.filename} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise ClientError(f"{options.filename} is not JSON: {json_fault(error)}.") from None
        count = experiment.import_results(results)
        self.say(words.imported_line(count, experiment.name, has_ended=experiment.has_ended))

    # --- how -------------------------------------------------------------------------------------------------

    def _lines(self, lines: list[str]) -> None:
        for line in lines:
            self.say(line)

    def _json(self, document: Any) -> None:
        self.say(json.dumps(document, indent=1))


class _UploadLine:
    """How much of the upload is sent, on a line that moves."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = -1

    def __call__(self, sent: int, total: int) -> None:
        percent = 100 * sent // max(total, 1)
        if percent != self._shown:
            self._shown = percent
            self._out.write(f"\rUploading the code: {sent / 2**20:.1f} of {total / 2**20:.1f} MB, {percent} %")
            self._out.flush()

    def end(self) -> None:
        if self._shown >= 0:
            self._out.write("\n")


def _git(options: argparse.Namespace) -> dict[str, str] | None:
    fields = {"url": options.git, "ref": options.git_ref, "folder": options.git_folder}
    if path := options.git_token_file:
        try:
            fields["token"] = path.read_text().strip()
        except OSError as error:
            raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    found = {name: value for name, value in fields.items() if value}
    if found and options.code is not None:
        raise ClientError("--code and --git cannot be used together, because the code comes from one place.")
    return found or None
