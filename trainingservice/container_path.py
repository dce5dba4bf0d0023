"""Paths in containers as people write them."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import StringConstraints

#: Absolute, and free of what a shell or a template would take apart.
ContainerPath = Annotated[str, StringConstraints(pattern=r"^/[^\s'\"]*$")]


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders or below one."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
