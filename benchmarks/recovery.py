"""How long a killed server's successor needs until it tracks all running trials again.

The server is killed (KILL) while trials run and started again. Printed: from the start of the new process until it
answers, and until it has heard every keeper; for 10 and 100 real trials under real keepers, and for 1,000 that are
rows of the database, on a platform without processes, whose keepers are requests of this program. The limit is the
start of a server that has nothing to find again, measured in the same run, and for real keepers the seconds between two
signs of life, because a trial that reports nothing is heard no sooner; ends with 1 where a recovery takes more than
LIMIT times as long.

    .venv/bin/python benchmarks/recovery.py [--real 10,100] [--simulated 1000]
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: A recovery may take so many times as long as its limit.
LIMIT = 5.0
#: Seconds between two signs of life of a keeper whose trial says nothing (``report_interval``, its default).
SIGN_OF_LIFE = 10.0
DOCILE = {"NNIWEB_EXTRA_PLATFORMS": "docile=trainingservice.testing.misbehaving:DocileTrainingService"}
TOKEN = "a token"

#: Run in the installation, before its server starts: an experiment with argv[1] running trials.
ROWS = f"""
import sys
import django
django.setup()
from django.utils import timezone
from nniweb.experiments.models import Attempt, Cluster, Experiment, Trial, TrialParameters, User
from nniweb.experiments.models.account import hash_of
number, now = int(sys.argv[1]), timezone.now()
experiment = Experiment.objects.create(
    name="simulated", owner=User.objects.get(username="admin"), status="RUNNING", seed=1, created_at=now,
    cluster=Cluster.objects.create(name="docile", platform="docile"), tuner={{"name": "Random"}}, trial_command="true",
    search_space={{"x": {{"_type": "uniform", "_value": [0, 1]}}}}, optimize_mode="minimize", trial_concurrency=number,
    max_trial_number=number, next_sequence_id=number, next_ask=number)
trials = Trial.objects.bulk_create(Trial(experiment=experiment, sequence_id=index, ask_number=index, created_at=now,
                                         status="RUNNING", started_at=now) for index in range(number))
TrialParameters.objects.bulk_create(TrialParameters(trial=trial, parameter_id=trial.ask_number, value={{"x": 0.5}})
                                    for trial in trials)
Attempt.objects.bulk_create(
    Attempt(trial=trial, job_name=trial.public_id, stage="submitted", token_hashes=[hash_of({TOKEN!r})], accepted=1,
            journal_id=trial.public_id, created_at=now, submitted_at=now, started_at=now,
            cluster=experiment.cluster) for trial in trials)
print("\\n".join(trial.public_id for trial in trials))
"""


def wait_until(condition: Callable[[], object], what: str, seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.02)


def heard_since(server: RunningServer, moment: datetime) -> int:
    """Running attempts whose keeper was heard after ``moment``, from the database file itself."""
    with closing(sqlite3.connect(f"file:{server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
        [[count]] = database.execute(
            "SELECT count(*) FROM experiments_attempt WHERE stage = 'submitted' AND heard_at > ?",
            [moment.strftime("%Y-%m-%d %H:%M:%S.%f")]).fetchall()
    return int(count)


def measure(server: RunningServer, number: int, keepers: Callable[[], object] = lambda: None) -> tuple[float, float]:
    """Start the server: seconds until it answers, and until ``number`` keepers were heard."""
    moment, begin = datetime.now(UTC), time.monotonic()
    server.start()
    answered = time.monotonic() - begin
    keepers()
    wait_until(lambda: heard_since(server, moment) >= number, f"{number} keepers are heard")
    return answered, time.monotonic() - begin


def real(folder: Path, number: int) -> tuple[float, float]:
    code = folder / "code"
    code.mkdir(parents=True)
    with closing(RunningServer(folder / "data")) as server:
        server.start()
        experiment = server.launch({
            "trialCommand": "sleep 3600", "trialCodeDirectory": str(code), "trialConcurrency": number,
            "maxTrialNumber": number, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"},
            "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}}}, code)
        wait_until(lambda: server.get(f"experiments/{experiment}/trials/", status="RUNNING", page_size=1)["count"]
                   == number, f"{number} trials run")
        server.kill()
        return measure(server, number)


def simulated(folder: Path, number: int) -> tuple[float, float]:
    with closing(RunningServer(folder / "data", DOCILE)) as server:
        server.start().kill()
        made = subprocess.run([sys.executable, "-c", ROWS, str(number)], cwd=ROOT, text=True, check=True,
                              env={**server.environment, "DJANGO_SETTINGS_MODULE": "nniweb.settings"},
                              stdout=subprocess.PIPE)

        def sign_of_life(session: requests.Session, trial: str) -> None:
            answer = session.post(f"{server.url}/api/trialkeeper/v1/trials/{trial}/reports", json={
                "keeper": {"version": 1, "journal_id": trial}, "entries": []},
                headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
            answer.raise_for_status()

        def keepers() -> None:
            with ThreadPoolExecutor(8) as pool, requests.Session() as session:
                list(pool.map(lambda trial: sign_of_life(session, trial), made.stdout.split()))

        return measure(server, number, keepers)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", default="10,100")
    parser.add_argument("--simulated", default="1000")
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name:
        with closing(RunningServer(Path(name) / "empty" / "data")) as server:
            server.start().kill()
            limit, _ = measure(server, 0)
        report.add("a server with nothing to find again answers after", limit, "s")
        for kind, way, numbers in (("real", real, options.real), ("simulated", simulated, options.simulated)):
            for number in map(int, filter(None, numbers.split(","))):
                answered, tracked = way(Path(name) / f"{kind}{number}", number)
                ratio = tracked / (limit + (SIGN_OF_LIFE if way is real else 0.0))
                what = f"{number} {kind} trials: the next server"
                report.add(f"{what} answers after", answered, "s")
                report.add(f"{what} has heard all keepers after", ratio, "x the limit", limit=LIMIT,
                           beside=f"{tracked:.1f} s")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
