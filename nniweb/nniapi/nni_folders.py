"""Folders of NNI's own tools, in the home of whoever runs the server."""

from pathlib import Path


def new_home() -> Path:
    """Where NNI 2 and 3 keep their experiments and the registry of them."""
    return Path.home() / "nni-experiments"


def old_home() -> Path:
    """Where the nnictl of NNI 1 keeps its own."""
    return Path.home() / ".local" / "nnictl"
