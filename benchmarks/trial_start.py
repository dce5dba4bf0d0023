"""How fast trials are started and ended: the product beside ``xargs`` with the same script, in the same run.

Measured on the local platform of a real server, with the tuner Random and our ``nni`` module:

* 200 trials that only ask for their parameters and report a result, eight at a time, from the launch to the end;
* processor time that the server spends on a trial;
* 80 trials that sleep for a second, eight at a time;
* from a trial's end to the start of the next one in its slot. That of the trials that do nothing is for information:
  they keep all processors busy, so that a start waits for its turn however soon it is asked for.

    .venv/bin/python benchmarks/trial_start.py [--rounds 3] [--trials 200] [--sleeping-rounds 7]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: At most so many times the wall time of ``xargs``: 200 trials that do nothing, 80 that sleep for a second.
NOTHING_LIMIT, SLEEP_LIMIT = 1.8, 1.06
#: From a trial's end to the next one's start, in milliseconds.
GAP_MEDIAN, GAP_P95 = 40.0, 100.0
#: Processor time of the server for one trial, in milliseconds.
SERVER_CPU = 15.0
AT_ONCE = 8

NOTHING = """
import nni

parameters = nni.get_next_parameter()
nni.report_final_result(parameters.get("x", 0.5))
"""
SLEEP = f"import time\n{NOTHING}\ntime.sleep(1)\n"
#: -W ignore: outside of an experiment our module warns, which costs time that the product would not have to match
COMMAND = [sys.executable, "-W", "ignore", "trial.py"]


def by_xargs(folder: Path, trials: int) -> float:
    """Seconds that ``xargs`` takes for them."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "trialkeeper")}
    begin = time.monotonic()
    subprocess.run(["xargs", "-P", str(AT_ONCE), "-n", "1", *COMMAND], cwd=folder, env=environment, text=True,
                   input="\n".join(map(str, range(trials))), stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def processor_seconds(pid: int) -> float:
    """Of this process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def by_us(server: RunningServer, folder: Path, trials: int,
          service: dict[str, Any] | None = None, **more: Any) -> tuple[float, list[dict[str, Any]], float]:
    """Seconds from the request that launches until the experiment is done, its trials, the server's processor time.

    ``service``: the section trainingService; the local platform unless it says otherwise. ``more``: further fields.
    """
    config = {"trialCommand": " ".join(COMMAND), "trialCodeDirectory": str(folder), "trialConcurrency": AT_ONCE,
              "maxTrialNumber": trials, "tuner": {"name": "Random"},
              "trainingService": service or {"platform": "local"},
              "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}, **more}
    spent = processor_seconds(server.pid)
    begin = datetime.now().astimezone()
    experiment = server.launch(config, folder)
    while (found := server.get(f"experiments/{experiment}/"))["status"] != "DONE":
        assert found["status"] in ("INITIALIZED", "RUNNING", "NO_MORE_TRIAL"), found["message"]
        time.sleep(2.0)  # seldom: asking costs the server time, too; the experiment itself says when it ended
    spent = processor_seconds(server.pid) - spent
    rows = server.get_all(f"experiments/{experiment}/trials/")
    bad = [row for row in rows if row["status"] != "SUCCEEDED"]
    assert not bad, f"{len(bad)} of {len(rows)} trials went wrong: {bad[0]}"
    assert len(rows) == trials
    return (datetime.fromisoformat(found["ended_at"]) - begin).total_seconds(), rows, spent


def gaps(rows: list[dict[str, Any]]) -> list[float]:
    """Milliseconds from the end that freed a slot to the start that filled it, by the trial machine's clock."""
    starts = sorted(datetime.fromisoformat(row["started_at"]) for row in rows)
    ends = sorted(datetime.fromisoformat(row["ended_at"]) for row in rows)
    return [1000 * (start - end).total_seconds() for start, end in zip(starts[AT_ONCE:], ends, strict=False)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--sleeping-rounds", type=int, default=7,
                        help="of trials of one second, one of which differs from the next by a hundredth (default 7)")
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name:
        nothing, sleep = Path(name) / "nothing", Path(name) / "sleep"
        for folder, script in ((nothing, NOTHING), (sleep, SLEEP)):
            folder.mkdir()
            (folder / "trial.py").write_text(script)
        ratios, between, busy, spent, sleep_ratios = [], [], [], [], []
        with closing(RunningServer(Path(name) / "data")) as server:
            server.start()
            by_xargs(nothing, 20)
            by_us(server, nothing, 20)  # what is done once for an installation: agent, tuner process, byte code
            for _ in range(options.rounds):
                limit = by_xargs(nothing, options.trials)
                wall, rows, cpu = by_us(server, nothing, options.trials)
                print(f"  {options.trials} trials: xargs {limit:.2f} s, here {wall:.2f} s "
                      f"({60 * options.trials / wall:,.0f} a minute)", flush=True)
                ratios.append(wall / limit)
                busy += gaps(rows)
                spent.append(1000 * cpu / options.trials)
            for _ in range(options.sleeping_rounds):
                limit = by_xargs(sleep, 80)
                wall, rows, _ = by_us(server, sleep, 80)
                print(f"  80 trials of 1 s: xargs {limit:.2f} s, here {wall:.2f} s", flush=True)
                sleep_ratios.append(wall / limit)
                between += gaps(rows)
    between.sort()
    report.add(f"{options.trials} trials that do nothing, {AT_ONCE} at a time", statistics.median(ratios), "x xargs",
               limit=NOTHING_LIMIT)
    report.add(f"80 trials of one second, {AT_ONCE} at a time", statistics.median(sleep_ratios), "x xargs",
               limit=SLEEP_LIMIT)
    what = "a trial's end until the next one's start"
    report.add(f"{what}, median, trials of one second", statistics.median(between), "ms", limit=GAP_MEDIAN)
    report.add(f"{what}, 95 %, trials of one second", between[int(0.95 * len(between))], "ms", limit=GAP_P95)
    report.add(f"{what}, median, trials that do nothing", statistics.median(busy), "ms")
    report.add("processor time of the server for a trial", statistics.median(spent), "ms", limit=SERVER_CPU)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
