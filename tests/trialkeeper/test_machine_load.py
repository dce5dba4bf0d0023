"""How busy a machine is, read from files as Linux has them."""

from pathlib import Path

import pytest

from trialkeeper.machine_load import MachineLoad

MEMINFO = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:   12000 kB\nHugePages_Total:       0\n"


def stat(busy: int, idle: int, *, wait: int = 0, guest: int = 0) -> str:
    return (f"cpu  {busy} 0 0 {idle} {wait} 0 0 0 {guest} 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\n"
            "intr 1 2 3\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "stat").write_text(stat(100, 100))
    (tmp_path / "meminfo").write_text(MEMINFO)
    return tmp_path


def test_processors_are_counted_as_busy_since_the_last_reading(proc: Path) -> None:
    load = MachineLoad(str(proc))
    (proc / "stat").write_text(stat(175, 110, wait=15))
    assert load.read() == {"cpu_used": 1.5, "cpu_total": 2, "memory_used": 4000 * 1024, "memory_total": 16000 * 1024}
    (proc / "stat").write_text(stat(175, 210, wait=15))
    told = load.read()
    assert told is not None
    assert told["cpu_used"] == 0.0


def test_what_guests_use_is_not_counted_twice(proc: Path) -> None:
    load = MachineLoad(str(proc))
    (proc / "stat").write_text(stat(150, 150, guest=50))
    told = load.read()
    assert told is not None
    assert told["cpu_used"] == 1.0


def test_two_readings_at_the_same_tick_tell_nothing_and_the_next_one_does(proc: Path) -> None:
    load = MachineLoad(str(proc))
    assert load.read() is None
    (proc / "stat").write_text(stat(200, 100))
    told = load.read()
    assert told is not None
    assert told["cpu_used"] == 2.0


@pytest.mark.parametrize(("file", "content"), [
    ("stat", None), ("stat", ""), ("stat", "cpu  1 2\n"), ("stat", "cpu  a b c d e f g h\n"), ("meminfo", None),
    ("meminfo", "MemTotal: 16000 kB\n"), ("meminfo", "MemTotal: many kB\nMemAvailable: 1 kB\n")])
def test_a_machine_that_does_not_tell_has_no_load(proc: Path, file: str, content: str | None) -> None:
    load = MachineLoad(str(proc))
    (proc / "stat").write_text(stat(200, 200))
    if content is None:
        (proc / file).unlink()
    else:
        (proc / file).write_text(content)
    assert load.read() is None


def test_this_machine_tells() -> None:
    load = MachineLoad()
    told = None
    while told is None:  # until a tick of the clock has passed
        told = load.read()
    assert 0 <= told["cpu_used"] <= told["cpu_total"]
    assert 0 < told["memory_used"] < told["memory_total"]
