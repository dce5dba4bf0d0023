"""The program: arguments in, exit status out."""

from __future__ import annotations

import sys
from typing import TextIO

from nniweb.client.arguments import INTERRUPTED
from nniweb.client.commands import FAILED
from nniweb.client.errors import CannotReach, ClientError
from nniweb.client.following import UNREACHABLE
from nniweb.nnictl.arguments import make_parser
from nniweb.nnictl.session import Session


def main(arguments: list[str], *, out: TextIO | None = None, err: TextIO | None = None) -> int:
    """Do what the arguments say. Returns the exit status: as of ``nniweb experiments`` (docs/client.md)."""
    out, err = out or sys.stdout, err or sys.stderr
    options = make_parser().parse_args(arguments)
    try:
        return int(options.call(Session(out, err), options) or 0)
    except CannotReach as error:
        err.write(f"{error}\n")
        return UNREACHABLE
    except ClientError as error:
        err.write(f"{error}\n")
        return FAILED
    except KeyboardInterrupt:
        err.write("\nStopped here. The experiment continues on the server.\n")
        return INTERRUPTED
