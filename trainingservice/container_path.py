"""Paths in containers as people write them."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated

from trainingservice.refused_values import matching

#: Absolute, and free of what a shell or a template would take apart.
ContainerPath = Annotated[str, matching(r"/[^\s'\"]*", "an absolute path in the container without blanks and "
                                        "quotes, such as /mnt/data")]


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders or below one."""
    return any(PurePosixPath(path).is_relative_to(folder) for folder in folders)
