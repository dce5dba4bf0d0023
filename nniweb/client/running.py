"""``run(function_or_command, space)``: from a script or a notebook to a finished search. docs/start-from-python.md."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

from nniweb.client import function_code
from nniweb.client.connection import Client
from nniweb.client.errors import ClientError
from nniweb.client.experiment import Experiment
from nniweb.client.following import Follower, MayBeClosed, Output, RestFollowed
from nniweb.client.notebook import NotebookFollower, is_in_notebook
from nniweb.client.own_server import connect
from nniweb.middleware.require_tls import is_loopback
from trainingservice.words.shown_value import shown
from trainingservice.words.spellings import fold

_LOCAL = "local"
_EXAMPLE = '{"x": {"_type": "uniform", "_value": [0, 1]}}'
#: Fields of a config that the arguments of ``run`` write: the field, and the argument that a person gives.
_OF_ARGUMENTS = {"trialCommand": "function_or_command", "searchSpace": "space", "trainingService": "platform",
                 "cluster": "cluster", "maxTrialNumber": "trials", "trialConcurrency": "concurrency",
                 "tuner": "tuner", "experimentName": "name", "trialCodeDirectory": "code"}


def run(function_or_command: Callable[..., Any] | str, space: Mapping[str, Any] | None = None, *,
        server: str | None = None, data_folder: str | os.PathLike[str] | None = None,
        platform: str | Mapping[str, Any] | None = None, cluster: str | None = None, trials: int | None = 20,
        concurrency: int = 1, tuner: str | Mapping[str, Any] | None = None, optimize: str = "maximize",
        name: str | None = None, code: str | os.PathLike[str] | None = None, python: str | None = None,
        config: Mapping[str, Any] | None = None, wait: bool = True) -> Experiment:
    """Search the ``space`` (in NNI's form) for the parameters with the best result, and return the experiment.

    A function is called in each trial, with the parameters as keyword arguments, or as one dictionary if it has one
    parameter that the space does not have. What it returns is the trial's result; what it yields before that are
    intermediate results. A command is a shell command that asks ``nni`` for its parameters and reports results.

    ``server``, ``data_folder``: as of ``connect``. ``platform``: a name, or the mapping of a ``trainingService``
    section; local by default. ``cluster``: one of the server's, instead. ``trials``: how many; None: until it is
    stopped. ``concurrency``: how many at the same time. ``tuner``: a name, or the mapping of a ``tuner`` section; Auto
    by default. ``optimize``: "maximize" or "minimize". ``code``: folder that is sent (of a command the working
    directory by default, of a function only modules from it). ``python``: the Python of a function's trials; on this
    machine the one of this process, else python3. ``config``: further fields of a config file.

    Shows the progress until the end, or returns at once without ``wait``. Ctrl-C asks what to do. Raises ClientError.
    """
    fields = _config(space, platform, cluster, trials, concurrency, tuner, optimize, name, config)
    client = connect(server, data_folder=data_folder)
    if isinstance(function_or_command, str):
        fields["trialCommand"] = function_or_command
        experiment = client.launch(fields, code=code)
    else:
        if space is None:
            raise ClientError(f"space: a function needs a search space, such as {_EXAMPLE}.")
        with tempfile.TemporaryDirectory(prefix="nniweb-run-") as folder:
            written, empty = Path(folder) / "written", Path(folder) / "empty"
            written.mkdir()
            empty.mkdir()
            files = function_code.write_function(function_or_command, space, written)
            fields.setdefault("experimentName", getattr(function_or_command, "__name__", "function"))
            fields["trialCommand"] = f"{python or _python_for(client, fields)} {function_code.START}"
            experiment = client.launch(fields, code=empty if code is None else code, files=files)
    return follow(client, experiment) if wait else experiment


def _config(space: Mapping[str, Any] | None, platform: str | Mapping[str, Any] | None, cluster: str | None,
            trials: int | None, concurrency: int, tuner: str | Mapping[str, Any] | None, optimize: str,
            name: str | None, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """The fields of the config but for the command. Raises ClientError where two of them say the same."""
    if optimize not in ("maximize", "minimize"):
        raise ClientError(f"optimize must be \"maximize\" or \"minimize\", not {shown(optimize)}.")
    if platform is not None and cluster is not None:
        raise ClientError("platform and cluster cannot be given together. A cluster has its platform.")
    more = dict(config or {})
    _check_is_json("config", more)
    given = {fold(str(field)) for field in more}
    for field, argument in _OF_ARGUMENTS.items():
        if fold(field) in given and field not in ("trainingService", "cluster", "tuner", "experimentName"):
            raise ClientError(f"config: {field} is given by the argument {argument} of run().")
    fields: dict[str, Any] = {"trialConcurrency": concurrency}
    if space is not None:
        fields["searchSpace"] = _checked_space(space)
    if trials is not None:
        fields["maxTrialNumber"] = trials
    if name is not None:
        fields["experimentName"] = name
    if cluster is not None:
        fields["cluster"] = cluster
    elif platform is not None or not given & {fold("trainingService"), "cluster", "clusters"}:
        fields["trainingService"] = {"platform": platform or _LOCAL} if not isinstance(platform, Mapping) \
            else dict(platform)
    if isinstance(tuner, Mapping):
        fields["tuner"] = dict(tuner)
    elif tuner is not None or not given & {"tuner", "advisor", "objectives"}:
        fields["tuner"] = {"name": tuner or "Auto", "classArgs": {"optimize_mode": optimize}}
    for field in fields:
        if fold(field) in given:
            raise ClientError(f"config: {field} is given by the argument {_OF_ARGUMENTS[field]} of run(), too.")
    return {**more, **fields}


def _checked_space(space: Any) -> dict[str, Any]:
    """What needs no server to be seen; the server checks the rest. Raises ClientError."""
    if not isinstance(space, Mapping):
        raise ClientError(f"space must be a mapping such as {_EXAMPLE}, not {shown(space)}. A command may have it in "
                          "a file: config={\"searchSpaceFile\": \"space.json\"}.")
    for name in space:
        if not isinstance(name, str):
            raise ClientError(f"space: the name of a parameter must be text, not {shown(name)}.")
    _check_is_json("space", dict(space))
    return dict(space)


def _check_is_json(argument: str, value: Mapping[str, Any]) -> None:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ClientError(f"{argument}: {error}. It may have texts, numbers, True, False, None, lists and "
                          "dictionaries.") from None


def _python_for(client: Client, fields: Mapping[str, Any]) -> str:
    """On this machine that of this process: a notebook's is often not the one of the shell."""
    service = fields.get("trainingService")
    is_here = isinstance(service, Mapping) and service.get("platform") == _LOCAL and is_loopback(
        urlsplit(client.server).hostname or "")
    return shlex.quote(sys.executable) if is_here and sys.executable else "python3"


def follow(client: Client, experiment: Experiment, stream: TextIO | None = None) -> Experiment:
    """Show the progress until the experiment has ended, on ``stream`` or stdout, which may be closed. Ctrl-C asks on a
    terminal; in a notebook it returns the experiment, which continues; elsewhere it raises KeyboardInterrupt, and the
    experiment continues.
    """
    out = MayBeClosed(stream or sys.stdout)
    followed = RestFollowed(client, experiment)
    if is_in_notebook():
        shown: Follower = NotebookFollower(followed, out, experiment)
    else:
        out.write(f"{experiment.name} ({experiment.id}): {experiment.url}\n")
        shown = Follower(followed, out)
    while True:
        try:
            shown.follow()
            return experiment
        except KeyboardInterrupt:
            if is_in_notebook():
                out.write(f"\nThe experiment continues: {experiment.url}\nThe value of run() is the experiment: its "
                          f"methods are wait(), stop() and best_trial().\n")
                return experiment
            if not _asked_to_go_on(experiment, out):
                raise


def _asked_to_go_on(experiment: Experiment, out: Output) -> bool:
    """Whether to go on following, perhaps until it has stopped. Without a terminal nobody is asked."""
    if sys.stdin is not None and sys.stdin.isatty() and out.isatty():
        out.write("\n")
        while True:
            out.write("Stop the experiment (s), leave it running (l), or go on following it (g)? ")
            out.flush()
            answer = sys.stdin.readline()
            match answer.strip().lower()[:1]:
                case "s":
                    experiment.stop()
                    return True
                case "g":
                    return True
                case "l":
                    break
            if not answer:  # nobody is there any more
                break
    out.write(f"\nThe experiment continues: {experiment.url}\n")
    return False
