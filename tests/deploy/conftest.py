"""Podman with the image of this checkout, once for the tests of a process."""

from collections.abc import Iterator

import pytest

from tests.deploy.container_engine import ContainerEngine
from tests.deploy.our_image import build_image
from tests.installed.conftest import built, wheel

__all__ = ["built", "engine", "image", "wheel"]


@pytest.fixture(scope="session")
def engine() -> Iterator[ContainerEngine]:
    with ContainerEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def image(engine: ContainerEngine, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the image. The wheel is built only where podman is."""
    return build_image(engine, request.getfixturevalue("wheel"), tmp_path_factory.mktemp("image") / "checkout")
