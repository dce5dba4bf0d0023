"""The fixtures all cases share, and the two that are left open."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainingservice.base import TrainingService
from trainingservice.receiver.keeper_receiver import KeeperReceiver
from trainingservice.testing.bench import Bench, PlatformUnderTest
from trainingservice.testing.keeper_server import KeeperServer
from trainingservice.testing.rules import RULES, rule_of


class ConformanceFixtures:
    """A case that fails says in words which rule was broken, and what the rule is for (``testing/rules.py``)."""

    def __init_subclass__(cls) -> None:
        for name, case in list(vars(cls).items()):
            if name in RULES:
                setattr(cls, name, _with_rule(case))

    @pytest.fixture
    def platform(self, tmp_path: Path) -> PlatformUnderTest:
        """Left open: return the platform under test; ``tmp_path / "platform"`` may be its folder."""
        raise RuntimeError("override the fixture platform: return a PlatformUnderTest")

    @pytest.fixture
    def keeper_server(self, tmp_path: Path) -> Iterator[KeeperServer]:
        """The server keepers report to: a KeeperReceiver, unless overridden."""
        with KeeperReceiver(installation="conformance", folder=tmp_path / "receiver") as receiver:
            yield receiver

    @pytest.fixture
    def bench(self, platform: PlatformUnderTest, keeper_server: KeeperServer, tmp_path: Path) -> Iterator[Bench]:
        bench = Bench(platform, keeper_server, tmp_path)
        yield bench
        bench.close(clean_up=True)

    @pytest.fixture
    def service(self, bench: Bench) -> TrainingService:
        return bench.open_service()


def _with_rule(case: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(case)
    def explained(*arguments: Any, **named: Any) -> None:
        try:
            case(*arguments, **named)
        except pytest.skip.Exception:
            raise
        except BaseException as error:  # pytest's own failures are none of Exception
            error.add_note(f"The rule: {rule_of(case.__name__)}")
            raise

    return explained


def needs_this_machine(bench: Bench) -> None:
    """Skip a case that looks at the trial's processes or files where trials run elsewhere."""
    if not bench.platform.runs_here:
        pytest.skip("trials of this platform do not run on the machine of the test")
