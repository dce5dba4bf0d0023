"""The benchmarks as one piece: none is forgotten, none is left running, and the table says what failed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.__main__ import HERE, PROGRAMS
from benchmarks.reporting import keep_faults, table
from tests.trialkeeper.keeper_run import wait_until
from trainingservice.testing.processes import is_alive


def test_every_program_is_run() -> None:
    shared = {"__main__", "reporting"}
    assert set(PROGRAMS) == {path.stem for path in HERE.glob("*.py")} - shared


def test_the_table_has_the_figures_and_says_which_program_did_not_end(tmp_path: Path) -> None:
    machine = {"processor": "a processor", "cores": 2, "memory_gib": 8.0, "python": "3.11.7", "load": 0.1}
    for name, measured in (("fast", 1.0), ("slow", 9.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps({
            "benchmark": name, "at": "2026-01-01T00:00:00", "machine": machine, "figures": [
                {"what": "a thing", "measured": measured, "unit": "s", "target": 2.0, "at_least": False,
                 "beside": "bare: 1 s"}]}))
    keep_faults(tmp_path, ["slow", "missing", "fast"], {"slow": "did not end within 5 minutes", "missing": "failed"})
    keep_faults(tmp_path, ["fast"], {})  # a run of one says nothing of the others
    text = table(tmp_path, ["slow", "missing", "fast"])
    assert text.index("**slow**") < text.index("**missing**") < text.index("**fast**")
    assert "| a thing (bare: 1 s) | 1 s | ≤ 2 s | met |" in text
    assert "| a thing (bare: 1 s) | 9 s | ≤ 2 s | **missed** |" in text
    assert "it did not end within 5 minutes the last time" in text
    assert "**missing** – no figures: it failed" in text
    keep_faults(tmp_path, ["slow"], {})
    assert "did not end" not in table(tmp_path)


MEASURE = """
import sys
sys.path.insert(0, {repository!r})
import benchmarks.reporting as reporting
reporting.RESULTS = reporting.Path({results!r})
report = reporting.Report("a_program.py")
report.add("a thing", float(len(sys.argv)), "s")
sys.exit(report.finish())
"""


def test_a_program_that_was_given_arguments_does_not_replace_the_figures_of_a_whole_run(tmp_path: Path) -> None:
    program, kept = tmp_path / "program.py", tmp_path / "results" / "a_program.json"
    program.write_text(MEASURE.format(repository=str(HERE.parent), results=str(tmp_path / "results")))

    def measured(*arguments: str, **environment: str) -> str:
        return subprocess.run([sys.executable, str(program), *arguments], env={**os.environ, **environment}, text=True,
                              stdout=subprocess.PIPE, check=True).stdout

    measured()
    whole = kept.read_text()
    assert "These figures are not kept: a_program was given arguments." in measured("--trials", "3")
    assert kept.read_text() == whole
    measured("--trials", "3", BENCHMARK_RESULTS=str(tmp_path / "elsewhere"))
    assert kept.read_text() == whole
    assert (tmp_path / "elsewhere" / "a_program.json").exists()


def test_what_is_interrupted_ends_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"""
import signal, sys
from pathlib import Path
import benchmarks.__main__ as everything
everything.HERE = Path({str(tmp_path)!r})
signal.signal(signal.SIGTERM, signal.default_int_handler)
try:
    everything.run("endless", (), 10, {{"BENCHMARK_RESULTS": {str(tmp_path)!r}}})
except KeyboardInterrupt:
    sys.exit(5)
"""
    (tmp_path / "endless.py").write_text("""
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(left.pid, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(1)
""")
    running = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                               cwd=HERE.parent, env=dict(os.environ))
    assert running.stdout is not None
    left = int(running.stdout.readline())
    assert is_alive(left)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=90)
    assert running.returncode == 5
    wait_until(lambda: not is_alive(left), 30)  # it was told to end; that takes a moment
