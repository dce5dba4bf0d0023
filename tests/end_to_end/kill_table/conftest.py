"""Each row of the kill table runs with ``--kill-table-seeds`` seeds, 0 and on."""

from __future__ import annotations

import glob

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(metafunc.config.getoption("--kill-table-seeds")), indirect=True)


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def faketime() -> str:
    """The library that gives a process another time."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        pytest.skip("faketime is not installed")
    return found[0]
