"""What the rows of the kill table need besides servers."""

from __future__ import annotations

import glob

import pytest


@pytest.fixture
def faketime() -> str:
    """The library that gives a process another time."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        pytest.skip("faketime is not installed")
    return found[0]
