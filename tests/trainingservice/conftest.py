"""A bench with a platform on it: trials that report to a KeeperReceiver. ``platform`` is a fixture of each folder."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.forking import keepers as forked_keepers
from tests.patient_looks import patient_looks
from tests.trainingservice import jobs_of_tests
from trainingservice.keeper.keeper_bundle import bundle_name, compiled_keeper_bytes
from trainingservice.local import agent_process
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing import scripted_cluster
from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.trial_job import JobApplicationForm

__all__ = ["patient_looks"]


@pytest.fixture(scope="module", autouse=True)
def forked_keepers_of_this_machine() -> Iterator[None]:
    """What the local platform and the scripted one start is forked, unless it is another one than usual."""
    start_agent, start_keeper = agent_process.start_agent, scripted_cluster.start_keeper

    def may_fork(bundle: Path, environment: dict[str, str]) -> bool:
        return bundle.name == bundle_name() and bundle.stat().st_size == len(compiled_keeper_bytes()) \
            and forked_keepers.can_fork(sys.executable, environment)

    def fork_agent(bundle: Path, folder: Path, log: IO[bytes]) -> Any:
        environment = agent_process.allowed_environment()
        if not may_fork(bundle, environment):
            return start_agent(bundle, folder, log)
        return forked_keepers.start(["agent"], archive=bundle, cwd=folder, env=environment, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, stderr=log)

    def fork_keeper(bundle: Path, environment: dict[str, str], run: Path, out: IO[bytes]) -> Any:
        if not may_fork(bundle, environment):
            return start_keeper(bundle, environment, run, out)
        return forked_keepers.start(["run"], archive=bundle, cwd=run, env=environment, stdout=out, stderr=out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent_process, "start_agent", fork_agent)
        patch.setattr(scripted_cluster, "start_keeper", fork_keeper)
        yield


@pytest.fixture
def bench(platform: PlatformUnderTest, tmp_path: Path) -> Iterator[Bench]:
    with KeeperReceiver(installation="test", folder=tmp_path / "receiver") as receiver:
        bench = Bench(platform, receiver, tmp_path)
        yield bench
        bench.close()


@pytest.fixture
def lasting(bench: Bench) -> tuple[JobApplicationForm, Path, Path]:
    """A job that notes its start and works until it is let go: form, file of starts, file to let it go."""
    return jobs_of_tests.lasting(bench)
