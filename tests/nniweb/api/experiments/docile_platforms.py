"""Two platforms whose jobs wait, for tests that need clusters of different kinds."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from trainingservice import platforms
from trainingservice.testing.misbehaving import DocileTrainingService


class DocileA(DocileTrainingService):
    platform: ClassVar[str] = "docile_a"


class DocileB(DocileTrainingService):
    platform: ClassVar[str] = "docile_b"


@contextmanager
def registered() -> Iterator[None]:
    for service in (DocileA, DocileB):
        platforms.register(service.platform, f"{__name__}:{service.__name__}")
    try:
        yield
    finally:
        for service in (DocileA, DocileB):
            platforms.unregister(service.platform)
