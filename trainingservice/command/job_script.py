"""The script that is handed to the scheduler: it runs the keeper of one attempt. No secret is in it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from trainingservice.command.config import CommandTrialOptions

#: What script and keeper print, in the attempt's folder.
OUTPUT_FILE = "job.out"

_NO_PYTHON = "There is no python3 on this node, which the trial's keeper needs; load one in prepareCommand, or name " \
             "its folder in pythonPath."
_UNPREPARED = 'nniweb_status=$?; [ $nniweb_status -eq 0 ] || { echo "prepareCommand ended with status ' \
              '$nniweb_status."; exit $nniweb_status; }'


def job_script(options: CommandTrialOptions, keeper: str, folder: str, variables: Mapping[str, str]) -> str:
    """``variables``: those of the keeper."""
    lines = ["#!/bin/sh", f"exec >>{shlex.quote(f'{folder}/{OUTPUT_FILE}')} 2>&1"]
    if options.prepare_command:
        lines += [options.prepare_command, _UNPREPARED]
    if options.python_path:
        lines.append(f"PATH={shlex.quote(options.python_path)}:$PATH; export PATH")
    lines.append(f"command -v python3 >/dev/null 2>&1 || {{ echo {shlex.quote(_NO_PYTHON)}; exit 127; }}")
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines.append(f"exec python3 {shlex.quote(keeper)} run")
    return "\n".join(lines) + "\n"
