"""The arguments of NNI's command, with NNI's own names and letters."""

from __future__ import annotations

import argparse
from typing import Any

from nniweb import __version__
from nniweb.nnictl import experiments, packages, results
from nniweb.nnictl.refused import NOTHING_TO_CLEAN, REFUSED

Verbs = Any  # argparse has no public name for what add_subparsers() returns


def make_parser() -> argparse.ArgumentParser:
    """``options.call`` is the function of the verb; it takes a session and the options."""
    parser = argparse.ArgumentParser(prog="nnictl", allow_abbrev=False, description=(
        "The verbs of NNI's nnictl, on a server of NNI Web: the one of NNIWEB_SERVER, else that of the data folder, "
        "which is started where it does not run. docs/migrate-from-nni.md has what each verb does here."))
    parser.add_argument("--version", "-v", action="version", version=f"nniweb {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    _add_life(verbs)
    _add_update(_group(verbs, "update", "change an experiment"))
    _add_trial(_group(verbs, "trial", "list trials, end one"))
    _add_experiment(_group(verbs, "experiment", "show, list, export, delete experiments"))
    _add_log(_group(verbs, "log", "print logs"))
    webui = _group(verbs, "webui", "print the address of an experiment's page")
    _of_one(webui, "url", results.url, "print it")
    _refuse(webui, "webui nas")
    _of_one(_group(verbs, "config", "print the config"), "show", results.show_config, "print it as JSON")
    tensorboard = _group(verbs, "tensorboard", "open TensorBoard on the server")
    start = _of_one(tensorboard, "start", results.start_tensorboard, "open one, and print its address")
    start.add_argument("--trial_id", "-T", help="ids of trials with commas (default: all that have begun)")
    start.add_argument("--port", type=int, help="no meaning here: it is a page of the server")
    _of_one(tensorboard, "stop", results.stop_tensorboard, "close those of the experiment")
    clean = _group(verbs, "platform", "nothing to do here").add_parser("clean", help=NOTHING_TO_CLEAN)
    clean.add_argument("--config", "-c", required=True)
    clean.set_defaults(call=lambda session, options: session.say(NOTHING_TO_CLEAN))
    _add_algo(_group(verbs, "algo", "register tuners and assessors"))
    top = verbs.add_parser("top", help="list the running experiments again and again")
    top.add_argument("--time", "-t", type=int, default=3, help="seconds between two lists (default: %(default)s)")
    top.set_defaults(call=experiments.top)
    services = _group(verbs, "trainingservice", "not here")
    extension = _group(verbs, "jupyter-extension", "not here")
    for name in REFUSED:
        first, _, second = name.partition(" ")
        if not second:
            _refuse(verbs, name)
        elif first in ("trainingservice", "jupyter-extension"):
            _refuse(services if first == "trainingservice" else extension, name)
    return parser


def _add_life(verbs: Verbs) -> None:
    create = verbs.add_parser("create", help="launch an experiment")
    create.add_argument("--config", "-c", required=True, help="config file")
    resume = _of_one(verbs, "resume", experiments.resume, "continue a stopped experiment", needs_id=True)
    view = _of_one(verbs, "view", experiments.view, "print the page of an experiment", needs_id=True)
    create.set_defaults(call=experiments.create)
    for each in (create, resume, view):
        each.add_argument("--port", "-p", type=int, help="port of the server, if it must be started (default: a free "
                                                         "one)")
    for each in (create, resume):
        each.add_argument("--debug", "-d", action="store_true", help="no meaning here; the config has debug: true")
        each.add_argument("--foreground", "-f", action="store_true", help="show the progress until the end")
    create.add_argument("--url_prefix", "-u", help="refused: the server has its own address")
    for each in (resume, view):
        each.add_argument("--experiment_dir", "-e", help="refused: import the folder with nniweb import_nni")
    stop = _of_one(verbs, "stop", experiments.stop, "stop one experiment, those whose id begins so (abc*), or all")
    stop.add_argument("--port", "-p", type=int, help="refused: one port has all experiments")
    stop.add_argument("--all", "-a", action="store_true", dest="everything", help="stop all")


def _add_update(verbs: Verbs) -> None:
    space = _of_one(verbs, "searchspace", experiments.update_space, "change the search space")
    space.add_argument("--filename", "-f", required=True, help="file with the new one")
    for name, field, about in (("concurrency", "trial_concurrency", "how many trials run at the same time"),
                               ("duration", "max_duration", "the longest duration, such as 2h"),
                               ("trialnum", "max_trial_number", "the highest number of trials")):
        verb = _of_one(verbs, name, experiments.update, f"change {about}")
        verb.add_argument("--value", "-v", required=True, help=about)
        verb.set_defaults(field=field)


def _add_trial(verbs: Verbs) -> None:
    listing = _of_one(verbs, "ls", results.list_trials, "list the trials as JSON")
    listing.add_argument("--head", type=int, help="only so many with the highest results")
    listing.add_argument("--tail", type=int, help="only so many with the lowest results")
    kill = _of_one(verbs, "kill", results.kill_trial, "end a trial")
    kill.add_argument("--trial_id", "-T", required=True, help="its id")
    _refuse(verbs, "trial codegen")


def _add_experiment(verbs: Verbs) -> None:
    _of_one(verbs, "show", results.show, "print the experiment as JSON")
    _of_one(verbs, "status", results.status, "print its status as JSON")
    listing = verbs.add_parser("list", help="list the experiments that have not ended")
    listing.add_argument("--all", action="store_true", dest="everything", help="all of them")
    listing.set_defaults(call=experiments.list_experiments)
    delete = _of_one(verbs, "delete", experiments.delete, "delete an experiment that has ended, with its data")
    delete.add_argument("--all", action="store_true", dest="everything", help="delete all that have ended")
    importing = _of_one(verbs, "import", results.import_results, "import results for its tuner")
    importing.add_argument("--filename", "-f", required=True, help="JSON file")
    export = _of_one(verbs, "export", results.export, "write results into a file")
    export.add_argument("--type", "-t", choices=["json", "csv"], required=True)
    export.add_argument("--filename", "-f", required=True, dest="path", help="file to write")
    export.add_argument("--intermediate", "-i", action="store_true", help="with intermediate results")
    save = _of_one(verbs, "save", packages.save, "write an ended experiment into a zip, with results and output")
    save.add_argument("--path", "-p", help="folder for it (default: the working directory)")
    save.add_argument("--saveCodeDir", "-s", action="store_true", dest="save_code", help="refused: without the code")
    load = verbs.add_parser("load", help="load such a zip, or one of NNI, on the server's machine")
    load.add_argument("--path", "-p", required=True, help="the zip")
    load.add_argument("--codeDir", "-c", required=True, dest="code", help="folder for the code that is in it")
    for letter, name in (("-l", "--logDir"), ("-s", "--searchSpacePath")):
        load.add_argument(name, letter, help="no meaning here")
    load.set_defaults(call=packages.load)


def _add_log(verbs: Verbs) -> None:
    for name, about in (("stdout", "print the experiment's log"), ("stderr", "print its warnings and errors")):
        log = _of_one(verbs, name, results.log, about)
        log.add_argument("--tail", "-T", type=int, help="only so many last lines")
        log.add_argument("--head", "-H", type=int, help="only so many first lines")
        log.add_argument("--path", action="store_true", help="refused: the log is in the server's database")
        log.set_defaults(stream=name)
    trial = _of_one(verbs, "trial", results.trial_folders, "print where the trials have their output")
    trial.add_argument("--trial_id", "-T", help="of one trial only")


def _add_algo(verbs: Verbs) -> None:
    register = verbs.add_parser("register", aliases=["reg"], help="register a class under a name")
    register.add_argument("--meta_path", "-m", required=True, help="file that describes it")
    register.set_defaults(call=lambda session, options: session.own_command("algo", "register", options.meta_path))
    for name, aliases, about in (("unregister", ["unreg"], "forget a name"), ("show", [], "describe one")):
        verb = verbs.add_parser(name, aliases=aliases, help=about)
        verb.add_argument("name")
        verb.set_defaults(call=lambda session, options, name=name: session.own_command("algo", name, options.name))
    listing = verbs.add_parser("list", help="list them")
    listing.set_defaults(call=lambda session, options: session.own_command("algo", "list"))


def _group(verbs: Verbs, name: str, about: str) -> Verbs:
    return verbs.add_parser(name, help=about).add_subparsers(metavar="VERB", required=True)


def _of_one(verbs: Verbs, name: str, call: Any, about: str, *, needs_id: bool = False) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=about)
    parser.add_argument("id", nargs=None if needs_id else "?", help=(
        "id of the experiment, its beginning, or its name" + ("" if needs_id else "; may be left out while one "
                                                                                  "experiment runs")))
    parser.set_defaults(call=call)
    return parser


def _refuse(verbs: Verbs, name: str) -> None:
    """A verb that takes whatever NNI's takes, and says its sentence."""
    parser = verbs.add_parser(name.rpartition(" ")[2], help="not here", prefix_chars="\0", add_help=False)
    parser.add_argument("rest", nargs="*")
    parser.set_defaults(call=lambda session, options: session.refuse(REFUSED[name]))
