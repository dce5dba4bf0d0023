"""The wheel, built once for the tests of a process."""

from pathlib import Path

import pytest

from tests.installed.wheel_build import build, copy_checkout


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive and the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("release")
    return build(copy_checkout(folder / "nniweb"), folder / "dist")


@pytest.fixture(scope="session")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]
