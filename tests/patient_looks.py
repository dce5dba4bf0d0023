"""A machine that runs tests may be busy: what looks at a platform before a launch waits for it longer than in use.

A test of something that never answers, or of the wait itself, sets what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trainingservice.command import rehearsal as command
from trainingservice.dlts import rehearsal as dlts
from trainingservice.kubernetes_base import rehearsal as kubernetes
from trainingservice.local import rehearsal as local
from trainingservice.openpai import rehearsal as openpai
from trainingservice.ray import rehearsal as ray
from trainingservice.remote import rehearsal as remote
from trainingservice.slurm import rehearsal as slurm

#: Seconds.
PATIENCE = 30.0


@pytest.fixture(scope="session", autouse=True)
def patient_looks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (command, local, remote, slurm):
            patch.setattr(module, "QUICK", PATIENCE)
        patch.setattr(local, "IMAGE_PATIENCE", (PATIENCE, local.IMAGE_PATIENCE[1]))
        patch.setattr(kubernetes, "QUICK", (PATIENCE, PATIENCE))
        for module in (dlts, openpai, ray):
            patch.setattr(module, "QUICK_TIMEOUT", (PATIENCE, PATIENCE))
        yield
