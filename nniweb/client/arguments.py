"""The arguments of ``launch`` and ``experiments``: the same with this machine's own database and by REST."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from trainingservice.words.shown_value import shown

#: What shells report of a program that Ctrl-C ended.
INTERRUPTED = 130

#: What ``experiments`` does to one: the verb, and what that means.
STEERING = {
    "pause": "start no new trials; running trials continue to their end",
    "resume": "continue the experiment, also beyond its limits if new ones are given",
    "stop": "end the experiment and its trials",
    "rerun-failed": "run its failed trials again",
}
#: Options of ``resume`` that change a limit, as fields.
NEW_LIMITS = ("max_trial_number", "max_duration")
LAUNCH_HELP = ("Launch an experiment from its config file. With --follow the exit status is 0 if it is DONE, 1 after "
               "an error or if all of its trials failed, 2 if no worker is alive, 3 if somebody "
               "stopped it, 4 if the server has not answered for ten minutes.")
EXPERIMENTS_HELP = ("List experiments; show, follow, pause, freeze, resume, stop or delete one, freeze and thaw its "
                    "trials, run its failed trials again, "
                    "show or export its trials and metrics, import results. The beginning of an id is "
                    "enough, and so is a name that only one has.")


def add_server_arguments(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """How another server is reached; left out, it is this machine's own. ``again``: what was said before a verb counts
    unless something is said behind it.
    """
    default = argparse.SUPPRESS if again else None
    group = parser.add_argument_group("another server")
    group.add_argument("--server", metavar="URL", default=default, help=(
        "use this server through REST, such as https://nni.example.org (NNIWEB_SERVER), with the token in NNIWEB_TOKEN "
        "or in a file"))
    group.add_argument("--token-file", type=Path, metavar="FILE", default=default, help="file with the token, which "
                       "only you may read (NNIWEB_TOKEN_FILE, else ~/.config/nniweb/token)")
    group.add_argument("--ca-file", type=Path, metavar="FILE", default=default, help=(
        "PEM file of the authority that signed the server's certificate, if it is a private one (NNIWEB_CA_FILE)"))


def changed_parameter(written: str) -> tuple[str, Any]:
    """Name and value out of ``lr=0.01``: JSON, else text. Raises ArgumentTypeError."""
    name, is_given, text = written.partition("=")
    if not (name and is_given):
        raise argparse.ArgumentTypeError(f"{shown(written)} is not NAME=VALUE")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


def add_launch_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``launch``."""
    parser.add_argument("config", type=Path, help="config file (NNI's v1 or v2 form)")
    parser.add_argument("--follow", action="store_true", help="show the progress until the end")
    parser.add_argument("--git", metavar="ADDRESS", help=(
        "Git repository (https or ssh) with the code, which the worker fetches; a relative trialCodeDirectory is a "
        "folder of it, and the config file itself must contain the search space"))
    parser.add_argument("--git-ref", metavar="REF", help="branch, tag or commit (default: the default branch)")
    parser.add_argument("--git-folder", metavar="FOLDER", help="folder of the repository that contains the code")
    parser.add_argument("--git-token-file", type=Path, metavar="FILE", help=(
        "file with the password or token for the repository (https)"))
    parser.add_argument("--user", help="owner of the experiment (default: the first administrator); not with --server, "
                                       "where the token decides")
    seen_by = parser.add_mutually_exclusive_group()
    seen_by.add_argument("--group", metavar="NAME", help=(
        "make the experiment visible to the members of this group of yours, who may steer it (default: your group if "
        "you are in exactly one, else nobody)"))
    seen_by.add_argument("--private", action="store_const", const="", dest="group",
                         help="make it visible to you and administrators only")
    add_server_arguments(parser)
    parser.add_argument("--cluster", metavar="NAME", help=(
        "with --server: a cluster of the server, instead of the one in the file"))
    parser.add_argument("--code", type=Path, metavar="FOLDER", help=(
        "with --server: the folder to upload, without files that .nniignore names (default: the file's "
        "trialCodeDirectory, else the folder of the file)"))


def add_experiments_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``experiments`` and its subcommands."""
    add_server_arguments(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help="list experiments, newest first (the default)")
    listing.add_argument("--all", action="store_true", dest="everything", help="archived ones too")
    show = _of_one(verbs, "show", "show one")
    _of_one(verbs, "follow", "show its progress until the end; exit status as with launch --follow")
    trials = _of_one(verbs, "trials", "list its trials")
    trials.add_argument("--filter", metavar="WORDS", help="an expression such as \"status = FAILED and lr < 0.01\"")
    metrics = _of_one(verbs, "metrics", "list the results of its trials: intermediate results by step, and final "
                                        "results")
    steering = {verb: _of_one(verbs, verb, about) for verb, about in STEERING.items()}
    steering["resume"].add_argument("--max-trial-number", type=int, metavar="N", help="a new maxTrialNumber")
    steering["resume"].add_argument("--max-duration", metavar="TIME",
                                    help="a new maxExperimentDuration, such as 90m or 2h")
    rerun = _of_one(verbs, "rerun", "run one of its trials again as a new one, which counts towards the trial limit; "
                                    "where that is reached, it grows by one, also after the end")
    rerun.add_argument("number", type=int, help="number of the trial")
    rerun.add_argument("--set", action="append", type=changed_parameter, metavar="NAME=VALUE", dest="changed", help=(
        "with another value of this parameter, as JSON or plain text: --set lr=0.01 --set optimizer=adam"))
    for verb, about in (
            ("freeze", "pause it and have its running trials save a checkpoint and end; or only these trials"),
            ("thaw", "have all its frozen trials continue from their checkpoints, or only these trials")):
        _of_one(verbs, verb, about).add_argument("numbers", type=int, nargs="*", metavar="number",
                                                 help="number of a trial")
    clusters = _of_one(verbs, "clusters", "list its clusters, or change the list while it runs")
    for option, about in (("--add", "run trials on this cluster, too"),
                          ("--drain", "give this cluster no new trials; what runs there continues"),
                          ("--fill", "give a drained cluster trials again"),
                          ("--remove", "take this cluster out of the list; what runs there continues")):
        clusters.add_argument(option, action="append", metavar="NAME", help=about)
    for option, metavar, about in (
            ("--weight", "NAME=NUMBER", "its share of the trials, compared with the others; 0: no new trials"),
            ("--up-to", "NAME=NUMBER", "the most trials there at a time"),
            ("--cost", "NAME=NUMBER", "what an hour of a trial costs there"),
            ("--after", "NAME=OTHER", "give it trials only when these clusters (names with commas) have no room")):
        clusters.add_argument(option, action="append", type=changed_parameter, metavar=metavar, help=about)
    changes = _of_one(verbs, "changes", "list the changes after its launch, and who made them")
    undo = _of_one(verbs, "undo", "undo one of these changes")
    undo.add_argument("number", type=int, help="number of the change, as changes lists it")
    delete = _of_one(verbs, "delete", "delete it with its trials and their data; it must have ended")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    export = _of_one(verbs, "export", "write its trials as JSON or CSV")
    export.add_argument("--format", choices=["json", "csv"], default="json")
    export.add_argument("--output", type=Path, metavar="FILE", help="file to write (the terminal, if left out)")
    export.add_argument("--intermediate", action="store_true", help="with intermediate results")
    export.add_argument("--raw", action="store_true", help=(
        "CSV: write texts unchanged, including those that a spreadsheet would run as a formula (by default they get a "
        "leading ')"))
    importing = _of_one(verbs, "import", "import results from elsewhere for its tuner")
    importing.add_argument("--filename", "-f", type=Path, required=True, help=(
        'JSON in the format that nnictl exports: [{"parameter": {...}, "value": 0.5}, ...]'))
    for each in (listing, show, trials, metrics, clusters, changes):
        each.add_argument("--json", action="store_true", dest="as_json", help="print JSON, for programs")
    for each in verbs.choices.values():
        add_server_arguments(each, again=True)


def _of_one(verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: str,
            about: str) -> argparse.ArgumentParser:
    parser = verbs.add_parser(verb, help=about)
    parser.add_argument("id", help="id of the experiment, its beginning, or the name where only one has it")
    return parser
