"""From a metric that a trial reports to the answer over REST that has it: our ``nni`` module, and the official package.

    .venv/bin/python benchmarks/report_to_rest.py [--metrics 60]

A real trial under a real keeper notes the time before each report; this program asks for the trial's newest metric over
and over, on one kept connection, and notes when the first answer with it had come. The clock is the same one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pytest  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.fakes.official_nni import official_python  # noqa: E402

#: Milliseconds (median) with our module, and with the official package, whose metrics wait for the keeper's next look.
OURS_LIMIT, OFFICIAL_LIMIT = 25.0, 120.0
#: Seconds between two reports.
PAUSE = 0.25

PROGRAM = """\
import json, os, sys, time
import nni

nni.get_next_parameter()
times = []
for number in range(int(sys.argv[1])):
    time.sleep(float(sys.argv[2]))
    times.append(time.time())
    nni.report_intermediate_result(number)
open("times.new", "w").write(json.dumps(times))
os.rename("times.new", "times.json")
nni.report_final_result(0)
"""


def delays(server: RunningServer, folder: Path, python: str, count: int) -> list[float]:
    """Milliseconds from report to answer, of each metric."""
    folder.mkdir()
    (folder / "trial.py").write_text(PROGRAM)
    experiment = server.launch({
        "trialCommand": f"{python} trial.py {count} {PAUSE}", "trialCodeDirectory": str(folder), "trialConcurrency": 1,
        "maxTrialNumber": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
        "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, folder)
    [trial] = server.wait_until(lambda: server.get(f"experiments/{experiment}/trials/")["results"])
    path, seen, revision = f"trials/{trial['id']}/metrics/", [], 0
    deadline = time.monotonic() + 60 + 2 * count * PAUSE
    while len(seen) < count and time.monotonic() < deadline:
        found = server.get(path, kind="PERIODICAL", since_revision=revision)["results"]
        now = time.time()
        seen += [now] * len(found)
        revision = max([revision, *(row["revision"] for row in found)])
    server.wait_until((folder / "times.json").exists, 30)
    reported = json.loads((folder / "times.json").read_text())
    return sorted(1000 * (there - begin) for begin, there in zip(reported, seen, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=int, default=60)
    options = parser.parse_args()
    report = Report(__file__)
    ways = [("our nni module", sys.executable, OURS_LIMIT)]
    try:
        ways.append(("the official nni 3.0", str(official_python("3.0")), OFFICIAL_LIMIT))
    except pytest.skip.Exception as reason:
        print(f"left out: {reason}")
    with tempfile.TemporaryDirectory() as name, closing(
            RunningServer(Path(name) / "data", {"NNIWEB_API_RATE": "0"})) as server:  # it is asked without a pause
        server.start()
        for place, (what, python, limit) in enumerate(ways):
            found = delays(server, Path(name) / f"code{place}", python, options.metrics)
            report.add(f"{what}: report until REST has it, median", statistics.median(found), "ms", limit=limit,
                       beside=f"95 % within {found[int(0.95 * len(found))]:.0f} ms")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
