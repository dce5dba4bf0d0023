"""``python -m nniweb.client.optuna search.py``: the trials of a script with a search of Optuna run on our platforms.

The script is run as it is, with its arguments, in this process. docs/optuna-and-hydra.md is the guide.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from nniweb.client.errors import ClientError
from nniweb.client.optuna.script_search import ScriptSearch
from trainingservice.limited_yaml import YamlRefused, read_yaml


def main(arguments: list[str]) -> None:
    """Exits with a sentence where the arguments are wrong, or the server refuses the experiment."""
    search = _search(arguments)
    _replace_optimize(search)
    sys.argv = [str(search.script), *search.arguments]
    sys.path[0] = str(search.script.parent)
    try:
        runpy.run_path(str(search.script), run_name="__main__")
    except ClientError as error:
        raise SystemExit(f"error: {error}") from error


def _search(arguments: list[str]) -> ScriptSearch:
    parser = argparse.ArgumentParser(prog="python -m nniweb.client.optuna", description=(
        "Runs a script that searches with Optuna. Each call of the objective is a trial of an experiment."))
    parser.add_argument("--config", type=Path, help="a config file: trainingService, trialConcurrency and other fields")
    parser.add_argument("--code", type=Path, help="the folder that is sent as code; default: the script's")
    parser.add_argument("--python", default="python3", help="what runs Python on the platform; default: python3")
    parser.add_argument("--trials", type=int, help="how many trials; default: what the script says")
    parser.add_argument("--timeout", type=float, help="seconds for which trials begin; default: what the script says")
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="those of the script")
    given = parser.parse_args(arguments)
    script = given.script.resolve()
    if not script.is_file():
        parser.error(f"there is no file {given.script}")
    code = given.code.resolve() if given.code else script.parent
    if not script.is_relative_to(code):
        parser.error(f"{given.script} is not in the folder {given.code}, which --code names")
    return ScriptSearch(script, given.arguments, code, given.python, _fields(given.config, parser), given.trials,
                        given.timeout)


def _fields(file: Path | None, parser: argparse.ArgumentParser) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        fields = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, YamlRefused) as error:
        parser.error(f"{file} cannot be read: {error}")
    if not isinstance(fields, dict):
        parser.error(f"{file} is no config file of an experiment")
    return fields


def _replace_optimize(search: ScriptSearch) -> None:
    def optimize(self: optuna.Study, func: Callable[..., Any], n_trials: int | None = None,  # noqa: ARG001
                 timeout: float | None = None, n_jobs: int = 1, catch: Any = (), callbacks: Any = None,
                 gc_after_trial: bool = False, show_progress_bar: bool = False) -> None:  # noqa: ARG001
        search.optimize(self, n_trials, timeout, n_jobs, catch, callbacks or ())
    optuna.Study.optimize = optimize  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1:])
