"""The authority behind the server's certificate, where this process could not know it: for requests to the server."""

from __future__ import annotations

from pathlib import Path

_file: Path | None = None


def trust(ca_file: Path | None) -> None:
    """Sessions that are made from now on trust this PEM file alone; None: the authorities that everybody knows.

    The host says it before it builds services. Any thread.
    """
    global _file
    _file = ca_file


def trusted() -> Path | None:
    """The file that was named last."""
    return _file
