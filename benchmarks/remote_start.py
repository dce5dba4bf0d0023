"""How soon trials start on a machine over SSH: twenty that do nothing, submitted at once over one connection.

The machine is a real sshd on loopback. Printed: from the first submission until the last one runs, and until all
have ended; also the first contact. (NNI needs about 15 s for the first of these.) Ends with 1 where a round takes
longer than the limit stated below (median).

    .venv/bin/python benchmarks/remote_start.py [--trials 20] [--rounds 3]
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from tests.fakes.ssh_machine import SshMachine  # noqa: E402
from trainingservice.base import ServiceContext  # noqa: E402
from trainingservice.receiver.keeper_receiver import KeeperReceiver  # noqa: E402
from trainingservice.remote.config import RemoteClusterSettings  # noqa: E402
from trainingservice.remote.service import RemoteTrainingService  # noqa: E402
from trainingservice.testing.bench import new_id  # noqa: E402
from trainingservice.trial_job import HyperParameters, JobApplicationForm, parameter_text  # noqa: E402

#: Seconds within which twenty trials have started.
LIMIT = 2.0


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("this takes too long: something is wrong")
        time.sleep(0.005)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, SshMachine(Path(name) / "ada") as machine, KeeperReceiver() as receiver:
        report = Report(__file__)
        service = RemoteTrainingService(RemoteClusterSettings(machine_list=(machine.settings(),)),
                                        ServiceContext("benchmark", Path(name) / "state"))
        service.resume_trial_jobs([])
        begin = time.monotonic()
        threading.Thread(target=service.run, daemon=True).start()
        wait_until(lambda: service.list_machines() and service.list_machines()[0].healthy)
        rounds, ends = [], []
        report.add("first contact with a machine", time.monotonic() - begin, "s")
        for _ in range(options.rounds):
            begin = time.monotonic()
            jobs = []
            for number in range(options.trials):
                job = new_id("t")
                jobs.append(job)
                service.submit_trial_job(JobApplicationForm(
                    job, job, "benchmarkexp", number, HyperParameters(parameter_text({}, number)), "true",
                    receiver.access_for(job)))
            wait_until(lambda jobs=jobs: all(service.get_trial_job(job).start_time for job in jobs))
            started = time.monotonic() - begin
            rounds.append(started)
            wait_until(lambda jobs=jobs: all(service.get_trial_job(job).status.is_end for job in jobs))
            ends.append(time.monotonic() - begin)
        service.clean_up_experiment("benchmarkexp")
        service.clean_up()
    report.add(f"{options.trials} trials over SSH, until all have started", statistics.median(rounds), "s", limit=LIMIT)
    report.add(f"{options.trials} trials over SSH, until all have ended", statistics.median(ends), "s")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
