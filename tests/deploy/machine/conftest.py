"""A machine for the tests of a file: NNI Web is installed on it as the README says, and runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.machine.installation import Installation
from tests.deploy.machine.origin import Origin, debian
from tests.deploy.machine.systemd_machine import needs_nspawn


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """Made only where there can be machines."""
    needs_nspawn()
    debian()
    return Origin(tmp_path_factory.mktemp("origin"))


@pytest.fixture(scope="module")
def machine(origin: Origin) -> Iterator[Installation]:
    with Installation(origin) as machine:
        machine.boot()
        machine.install()
        yield machine
