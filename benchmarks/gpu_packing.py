"""How many trials GPUs finish in an hour where trials share them by memory that is learnt, compared with an oracle that
knows what each trial needs, and with a fixed number of trials on each GPU.

    .venv/bin/python benchmarks/gpu_packing.py                 # the table of docs/performance.md, about a minute
    .venv/bin/python benchmarks/gpu_packing.py --seeds 1 --trials 150

In simulated time, with the chooser, the book and the model that the server has: trials with random parameters wait for
four GPUs of 80 GB, 48 of them at a time. What a trial needs is a constant share and a product of its parameters, with
noise. Where the trials on a GPU together need more than it has, the one that came last fails after a twentieth of its
time; then it runs again alone, except with a fixed number of trials, where it is lost. Up to eight trials on a GPU do
not slow each other down. The cost of a round is measured apart: 1,000 waiting trials, none of which fits, and 64
machines of eight GPUs, of which the database (SQLite) is asked what trials hold.
"""

from __future__ import annotations

import argparse
import heapq
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
_FOLDER = tempfile.TemporaryDirectory()
os.environ |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": _FOLDER.name}

import django  # noqa: E402

django.setup()

from django.core.management import call_command  # noqa: E402
from django.utils import timezone  # noqa: E402

from benchmarks.reporting import Report  # noqa: E402
from nniweb.experiments import models  # noqa: E402
from nniweb.experiments.clusters.gpu_book import AttemptGpuBook  # noqa: E402
from nniweb.experiments.memory.predictor import MemoryModel, Seen, fit  # noqa: E402
from trainingservice.gpus.gpu_slots import (  # noqa: E402
    Assigned,
    GpuBooking,
    GpuReading,
    GpuRequest,
    MemoryGpuBook,
    Waits,
    choose_gpus,
)
from trainingservice.gpus.refused_demands import RefusedDemands  # noqa: E402
from trainingservice.remote.scheduling import MachineView, choose_machine  # noqa: E402
from trainingservice.trial_job import GpuDemand  # noqa: E402

GB = 1 << 30
GPUS, GPU_BYTES, AT_ONCE = 4, 80 * GB, 48
FAILS_AFTER = 0.05
SEEDS, TRIALS = 2, 600
#: Waiting trials and machines of the round whose cost is measured, and milliseconds that it may take.
WAITING, MACHINES, ROUND_MS = 1000, 64, 20.0
SHARE_OF_ORACLE = 0.85


@dataclass
class Trial:
    name: str
    parameters: dict[str, Any]
    needs: int
    seconds: float
    is_alone: bool = False


def drawn(number: int, chance: random.Random) -> Trial:
    parameters = {"batch": chance.choice([16, 32, 64, 128, 256]), "width": chance.randint(64, 1024),
                  "depth": chance.randint(2, 12), "model": chance.choice(["small", "large"]),
                  "lr": 10 ** chance.uniform(-5, -1), "dropout": chance.random()}
    product = parameters["batch"] * parameters["width"] * parameters["depth"] * (
        1.6 if parameters["model"] == "large" else 1.0)
    needs = (1.2 * GB + product * 18000) * chance.uniform(0.98, 1.02)
    return Trial(f"trial{number}", parameters, min(int(needs), 76 * GB), chance.uniform(600, 1800))


@dataclass
class Learnt:
    """What the server does: whole GPUs until enough is known, then what the model says."""

    seen: list[Seen] = field(default_factory=list)
    model: MemoryModel | None = None

    def demand(self, trial: Trial) -> GpuDemand:
        return GpuDemand() if self.model is None else GpuDemand(memory=self.model.predict(trial.parameters).upper)

    def learn(self, trial: Trial, ran_out: bool) -> None:
        if not ran_out:  # of one that ran out the attempt that follows says more
            self.seen.append(Seen(trial.parameters, trial.needs))
            self.model = fit(self.seen)


class Oracle(Learnt):
    """Knows what each trial needs."""

    def demand(self, trial: Trial) -> GpuDemand:
        return GpuDemand(memory=trial.needs)

    def learn(self, trial: Trial, ran_out: bool) -> None:
        pass


@dataclass
class Fixed(Learnt):
    """So many trials on each GPU, whatever they need."""

    trials: int = 1

    def demand(self, trial: Trial) -> GpuDemand:
        return GpuDemand()

    def learn(self, trial: Trial, ran_out: bool) -> None:
        pass


@dataclass
class Outcome:
    finished: int = 0
    ran_out: int = 0
    lost: int = 0
    hours: float = 0.0

    @property
    def rate(self) -> float:
        """Trials per GPU-hour."""
        return self.finished / (self.hours * GPUS)


def simulate(policy: Learnt, seed: int, trials: int) -> Outcome:
    chance = random.Random(seed)
    coming = [drawn(number, chance) for number in range(trials)]
    coming.reverse()
    most = policy.trials if isinstance(policy, Fixed) else 1
    waiting: list[Trial] = []
    book, on_gpu, outcome = MemoryGpuBook(), [dict[str, int]() for _ in range(GPUS)], Outcome()
    ends: list[tuple[float, str, Trial, int, bool]] = []
    now = 0.0
    while coming or waiting or ends:
        while coming and len(waiting) + len(ends) < AT_ONCE:
            waiting.append(coming.pop())
        for trial in list(waiting):
            demand = GpuDemand(alone=True) if trial.is_alone else policy.demand(trial)
            readings = [GpuReading(index, len(held), GPU_BYTES, memory_used=sum(held.values()), others_bytes=0)
                        for index, held in enumerate(on_gpu)]
            choice = choose_gpus(GpuRequest(1, most, demand=demand), readings, book.booked("m"), "m")
            if not isinstance(choice, Assigned):
                continue
            assert book.book_nodes(trial.name, [GpuBooking("m", choice.indices, most, demand.alone, choice.memory,
                                                           choice.room)])
            waiting.remove(trial)
            [index] = choice.indices
            fails = sum(on_gpu[index].values()) + trial.needs > GPU_BYTES
            if not fails:
                on_gpu[index][trial.name] = trial.needs
            heapq.heappush(ends, (now + trial.seconds * (FAILS_AFTER if fails else 1), trial.name, trial, index, fails))
        if not ends:
            break
        now, _, trial, index, failed = heapq.heappop(ends)
        on_gpu[index].pop(trial.name, None)
        book.free(trial.name)
        policy.learn(trial, failed)
        outcome.finished += not failed
        outcome.ran_out += failed
        if failed and isinstance(policy, Fixed):
            outcome.lost += 1
        elif failed:
            trial.is_alone = True
            waiting.insert(0, trial)
    outcome.hours = now / 3600
    outcome.lost += len(waiting)
    return outcome


def fill_book() -> list[str]:
    """A database in which a trial holds 60 GB of each GPU of each machine; the machines' identities."""
    call_command("migrate", verbosity=0)
    now, machines = timezone.now(), [f"m{number}" for number in range(MACHINES)]
    cluster = models.Cluster.objects.create(name="nowhere", platform="remote", enabled=False)
    experiment = models.Experiment.objects.create(
        name="one", owner=models.User.objects.create_user("ann"), cluster=cluster, seed=1, search_space={},
        tuner={"name": "Random"}, optimize_mode="minimize", trial_command="true", trial_concurrency=WAITING,
        created_at=now, status="RUNNING")
    held = [(machine, index) for machine in machines for index in range(8)]
    trials = models.Trial.objects.bulk_create(
        models.Trial(experiment=experiment, sequence_id=number, created_at=now) for number in range(len(held)))
    models.Attempt.objects.bulk_create(models.Attempt(
        trial=trial, job_name=f"job{machine}x{index}", created_at=now, stage="submitted", cluster=cluster,
        machine_identity=machine, gpu_indices=[index], gpu_memory=60 * GB)
        for trial, (machine, index) in zip(trials, held, strict=True))
    return machines


def round_milliseconds(identities: list[str]) -> float:
    """The least of five times that it takes to find that none of the waiting trials fits. ``identities``: of the
    machines, whose GPUs are all held.
    """
    chance = random.Random(0)
    model = fit([Seen(trial.parameters, trial.needs) for trial in (drawn(number, chance) for number in range(100))])
    assert model is not None
    demands = [GpuDemand(memory=max(24 * GB, model.predict(drawn(number, chance).parameters).upper))
               for number in range(WAITING)]
    book = AttemptGpuBook()
    times = []
    for _ in range(5):
        refused = RefusedDemands()
        begin = time.perf_counter()
        for demand in demands:
            if refused.why(1, demand) is None:
                booked = book.booked_on(identities)
                machines = [MachineView(identity, identity, booked=booked[identity], gpus=tuple(
                    GpuReading(index, 1, GPU_BYTES, memory_used=60 * GB, others_bytes=0) for index in range(8)))
                    for identity in identities]
                choice = choose_machine(1, machines, demand=demand)
                assert isinstance(choice, Waits)
                refused.note(1, demand, choice.reason)
        times.append((time.perf_counter() - begin) * 1000)
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--trials", type=int, default=TRIALS)
    options = parser.parse_args()
    report = Report(__file__)
    policies: Mapping[str, Callable[[], Learnt]] = {
        "an oracle": Oracle, "learnt": Learnt, **{
            f"fixed, {count} on each GPU": lambda count=count: Fixed(trials=count) for count in (1, 2, 4)}}  # type: ignore[misc]
    outcomes = {name: [simulate(make(), seed, options.trials) for seed in range(options.seeds)]
                for name, make in policies.items()}
    rates = {name: statistics.mean(one.rate for one in each) for name, each in outcomes.items()}
    for name, each in outcomes.items():
        lost = sum(one.lost for one in each) / (options.trials * len(each))
        ran_out = sum(one.ran_out for one in each) / (options.trials * len(each))
        if name == "learnt":
            report.add("trials per GPU-hour, memory learnt, of those of an oracle", rates[name] / rates["an oracle"],
                       "", limit=SHARE_OF_ORACLE, at_least=True, beside=f"oracle: {rates['an oracle']:.1f}")
            report.add("trials lost to out of memory that would have fitted alone", lost, "of all", limit=0.0)
        else:
            report.add(f"trials per GPU-hour, {name}", rates[name], "", beside=f"{lost:.0%} lost")
        report.add(f"attempts that ran out of memory, {name}", ran_out, "for each trial")
    report.add(f"a round of {WAITING:,} waiting trials, {MACHINES} machines of 8 GPUs",
               round_milliseconds(fill_book()), "ms", limit=ROUND_MS)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
