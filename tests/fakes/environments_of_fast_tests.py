"""The virtual environments that tests of ``make test`` use, made beside the linters: ``python -m`` this module.

A test whose environment is not there makes it itself, so nothing fails here where a package cannot be had.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.fakes.moto_s3 import moto_python
from tests.fakes.own_environments import python_with


def hdf5_python() -> Path:
    """The interpreter of an environment with h5py."""
    return python_with("h5py", "3.16.0", [["h5py==3.16.0"]], "h5py")


def main() -> None:
    for make in (moto_python, hdf5_python):
        with contextlib.suppress(pytest.skip.Exception):
            make()


if __name__ == "__main__":
    main()
