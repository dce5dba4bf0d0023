"""What reading metrics from a script's output and files costs a keeper, beside the same metrics through ``nni``.

A keeper of a trial that writes so many metrics a second: 10,000 lines of stdout found by a pattern, 1,000 points for
TensorBoard, 1,000 calls of MLflow's REST interface, 1,000 rows of CSV. The figure is the processor time of the keeper,
which reports to a server all the while, divided by that of a keeper whose trial calls
``nni.report_intermediate_result`` as often in the same round.

    .venv/bin/python benchmarks/metric_sources.py [--rounds 5] [--seconds 4]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.fakes.scripted_keeper_server import ScriptedKeeperServer  # noqa: E402
from tests.trialkeeper.keeper_run import KeeperRun  # noqa: E402

#: At most so many times the processor time of the same through ``nni``.
LIMIT = 1.3
TICKS = os.sysconf("SC_CLK_TCK")

#: ``say(step)`` is called RATE times a second, in bursts of ten milliseconds, for SECONDS.
PACE = """
import json, os, sys, time
rate, seconds = %d, %d
%s
began, step = time.monotonic(), 0
while step < rate * seconds:
    while step < min(rate * seconds, (time.monotonic() - began) * rate):
        say(step)
        step += 1
    done()
    time.sleep(0.01)
"""
NNI = """
import nni
nni.get_next_parameter()
say, done = nni.report_intermediate_result, lambda: None
"""
LINES = """
def say(step):
    sys.stdout.write("epoch %%d: loss=0.25 acc=%%d\\n" %% (step, step))
done = sys.stdout.flush
"""
ROWS = """
rows = open(os.environ["NNI_OUTPUT_DIR"] + "/metrics.csv", "w")
rows.write("step,acc\\n")
def say(step):
    rows.write("%%d,%%d\\n" %% (step, step))
done = rows.flush
"""
EVENTS = """
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
stream = open(os.environ["NNI_OUTPUT_DIR"] + "/events.tfevents", "wb")
writer = RecordWriter(stream)
def say(step):
    value = Summary.Value(tag="acc", simple_value=step)
    writer.write(Event(step=step, summary=Summary(value=[value])).SerializeToString())
done = stream.flush
"""
CALLS = """
import http.client
address = os.environ["MLFLOW_TRACKING_URI"].rpartition("/")[2]
connection = http.client.HTTPConnection(address)
headers = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"}
def call(name, **fields):
    connection.request("POST", "/api/2.0/mlflow/" + name, json.dumps(fields), headers)
    return json.loads(connection.getresponse().read())
run = call("runs/create")["run"]["info"]["run_id"]
def say(step):
    call("runs/log-metric", run_id=run, key="acc", value=step, step=step)
done = lambda: None
"""
SOURCES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "lines of stdout by a pattern": (LINES, 10_000, {
        "stdout": r"epoch (?P<step>\d+).*acc=(?P<acc>\S+)", "result": "acc"}),
    "points for TensorBoard": (EVENTS, 1_000, {"tensorboard": ["acc"], "result": "acc"}),
    "calls of MLflow": (CALLS, 1_000, {"mlflow": True, "result": "acc"}),
    "rows of CSV": (ROWS, 1_000, {"files": ["*.csv"], "result": "acc"})}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as scratch:
        for name, (say, rate, metrics) in SOURCES.items():
            ratios, own, by_nni = [], [], []
            for number in range(options.rounds):
                folder = Path(scratch) / f"{name.replace(' ', '-')}-{number}"
                by_nni.append(keeper_seconds(folder / "nni", NNI, rate, options.seconds, None))
                own.append(keeper_seconds(folder / "script", say, rate, options.seconds, metrics))
                ratios.append(own[-1] / by_nni[-1])
            beside = (f"of {statistics.median(own):.2f} s and {statistics.median(by_nni):.2f} s in "
                      f"{options.seconds} s; ratios {', '.join(f'{ratio:.2f}' for ratio in sorted(ratios))}")
            report.add(f"keeper's processor time for {rate:,} {name} a second, of the same by nni",
                       statistics.median(ratios), "times", limit=LIMIT, beside=beside)
    return report.finish()


def keeper_seconds(folder: Path, say: str, rate: int, seconds: int, metrics: dict[str, Any] | None) -> float:
    """Processor time of a keeper's process from its start to the trial's end. Every metric arrives once, in order."""
    server = ScriptedKeeperServer()
    keeper = KeeperRun(folder, server)
    try:
        command = keeper.python_command(PACE % (rate, seconds, say.replace("%%", "%")))
        process = keeper.start(command, metrics=metrics)
        spent = 0.0
        while process.poll() is None:
            spent = max(spent, _spent_by(process.pid))
            time.sleep(0.02)
        assert process.returncode == 0, server.output("stderr")
    finally:
        keeper.clean_up()
        server.stop()
    values = [float(json.loads(value)) for value in server.values()]
    last = [] if metrics is None else [values.pop()]
    assert values == [float(step) for step in range(rate * seconds)], f"{len(values)} of {rate * seconds} arrived"
    assert last in ([], values[-1:])
    return spent


def _spent_by(pid: int) -> float:
    """Seconds of the process itself, without its children; 0 where it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
