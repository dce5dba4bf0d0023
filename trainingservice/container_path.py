"""Paths in containers as people write them."""

from typing import Annotated

from pydantic import StringConstraints

#: Absolute, and free of what a shell or a template would take apart.
ContainerPath = Annotated[str, StringConstraints(pattern=r"^/[^\s'\"]*$")]
