"""The platforms whose machines have an agent pass the suite with trials that are started warm, where they can be."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainingservice.conformance import test_conformance_local as local
from tests.trainingservice.conformance import test_conformance_remote as remote
from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.testing.keeper_server import KeeperServer


class WarmTrials:
    """Mix in before a class of the suite."""

    @pytest.fixture
    def bench(self, platform: PlatformUnderTest, keeper_server: KeeperServer, tmp_path: Path) -> Iterator[Bench]:
        bench = Bench(platform, keeper_server, tmp_path)
        bench.form = functools.partial(bench.form, warm_start=("decimal",))
        yield bench
        bench.close(clean_up=True)

    def test_trials_of_this_class_are_started_warm(self, bench: Bench) -> None:
        service = bench.open_service()
        form = bench.form(script="import sys; print('decimal' in sys.modules)")
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert bench.output(form) == "True\n"
        [end] = bench.entries(form, "ended")
        assert end["warm_start"]["warm"]
        assert end["warm_start"]["modules"] == 1


class TestLocalWithWarmTrials(WarmTrials, local.TestLocal):
    pass


@pytest.mark.slow
class TestRemoteWithWarmTrials(WarmTrials, remote.TestRemote):
    pass
