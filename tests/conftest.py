"""Skipped tests are counted by reason, and ``--allowed-skips FILE`` fails a run with a reason that is not in FILE."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.end_to_end import prepared_installation
from tests.forking import programs as forked_programs
from tests.forking import workers as forked_workers
from tests.rewritten_once import rewrite_once
from tests.unraisable_hook import ToldLater

# the workers of one run, and the next run, do not compile all tests again
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# the same examples in every run; "make test-all" looks for new ones
hypothesis.settings.register_profile("quick", max_examples=40, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("thorough", max_examples=200, deadline=None, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

END_TO_END = Path(__file__).parent / "end_to_end"
BROWSER = END_TO_END / "browser"
#: Folders whose tests wait for other processes two thirds of their time, in the order in which they are to begin: the
#: files that take longest are not the last.
WAITING = [Path(__file__).parent / name for name in ("trialkeeper", "trainingservice")]
told_later = ToldLater()
pytest_plugins = ["tests.end_to_end.kill_table.reliability_table"]


def pytest_configure(config: pytest.Config) -> None:
    # as in a shell in which this Python's environment is active: trials find what the tests have
    own = str(Path(sys.executable).parent)
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([own, os.environ.get("PATH", os.defpath)])
    if not hasattr(config, "workerinput"):
        prepared_installation.begin()
        os.environ[forked_programs.IN_USE] = "1"
        if config.getoption("numprocesses", None):
            if forked_workers.can_be_used():
                workers = forked_workers.ForkedWorkers()
                workers.take_the_place_of_execnets()
                config.add_cleanup(workers.end)  # when all have ended
            rewrite_once(config)
    # a shell starts what it puts into the background with Ctrl-C ignored; servers that tests start would inherit that
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Iterator[None]:
    told_later.begin()  # pytest has set its own hook by now
    try:
        return (yield)
    finally:
        told_later.end()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Iterator[None]:
    try:
        return (yield)
    finally:
        told_later.tell()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collection makes stays until the end: it is not looked through for garbage, then or while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The dearest files first: those who run several files at once do not wait for a long one in the end.

    Among those, files with a browser and files without take turns: several browsers at once are too much for a small
    machine. Then files that wait and files that compute do, so that the processors are always in use.
    """
    files = list(dict.fromkeys(item.path for item in items))
    dearest = [path for path in files if path.is_relative_to(END_TO_END)]
    browser = [path for path in dearest if path.is_relative_to(BROWSER)]
    others = [path for path in files if not path.is_relative_to(END_TO_END)]
    waiting = [path for folder in WAITING for path in others if path.is_relative_to(folder)]
    place: dict[Path, tuple[int, float]] = {}
    for part, group in ((0, browser), (0, [path for path in dearest if path not in set(browser)]),
                        (1, waiting), (1, [path for path in others if path not in set(waiting)])):
        place |= {path: (part, (number + 1) / len(group)) for number, path in enumerate(group)}
    items.sort(key=lambda item: place[item.path])


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        prepared_installation.end()
        os.environ.pop(forked_programs.IN_USE, None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allowed-skips", metavar="FILE", type=Path,
                     help="fail when a test is skipped for a reason that is not in FILE (one a line, * for any text)")


def skip_reasons(config: pytest.Config) -> Counter[str]:
    """How many tests were skipped for which reason. Workers report a skipped file twice; it counts once."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = {report.nodeid: report for report in reporter.stats.get("skipped", [])} if reporter else {}
    texts = (report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
             for report in reports.values())
    return Counter(text.removeprefix("Skipped: ") for text in texts)


def unexpected_skips(config: pytest.Config) -> list[str]:
    """Reasons that ``--allowed-skips`` does not list; none without that option."""
    allowed_file: Path | None = config.getoption("--allowed-skips")
    if allowed_file is None:
        return []
    lines = (line.strip() for line in allowed_file.read_text().splitlines())
    allowed = [".*".join(map(re.escape, line.split("*"))) for line in lines if line and not line.startswith("#")]
    return [reason for reason in skip_reasons(config)
            if not any(re.fullmatch(pattern, reason, re.DOTALL) for pattern in allowed)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and unexpected_skips(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reasons = skip_reasons(config)
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:4}  {reason}")
    unexpected = unexpected_skips(config)
    if unexpected:
        terminalreporter.section("skipped for reasons that are not allowed here", red=True)
        terminalreporter.line(f"Make these tests run, or add the reason to {config.getoption('--allowed-skips')}:")
        for reason in unexpected:
            terminalreporter.line(f"      {reason}", red=True)
