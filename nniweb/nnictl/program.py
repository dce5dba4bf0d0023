"""The program: arguments in, exit status out."""

from __future__ import annotations

import sys
from typing import TextIO

from nniweb.client.commands import exit_status_of
from nniweb.nnictl.arguments import make_parser
from nniweb.nnictl.session import Session


def main(arguments: list[str], *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Do what the arguments say. Returns the exit status: as of ``nniweb experiments`` (docs/client.md)."""
    out, err = out or sys.stdout, err or sys.stderr
    options = make_parser().parse_args(arguments)
    return exit_status_of(lambda: int(options.call(Session(out, err), options) or 0), err)
