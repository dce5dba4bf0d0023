"""A trial that counts epochs and saves a checkpoint each ten. It is interrupted at moments that a seed chooses.

    counted = CountedEpochs(server, tmp_path, {"platform": "slurm", ...}, seed)
    counted.interrupt([kill_its_keeper, requeue_its_job])         # in an order of the seed
    counted.has_run_each_epoch_once()

The trial writes each epoch that it runs into a file that outlives it, and its checkpoint holds the sum of all epochs.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.end_to_end.running_server import RunningServer

#: Of the trial; an epoch takes 0.2 s, so that a checkpoint is kept long before the next one is due.
EPOCHS, EPOCHS_PER_CHECKPOINT = 120, 10
#: Seconds for each step: the last word of a lost machine is waited for, a minute.
PATIENCE = 240.0

#: argv: folder in which it says what it runs; before the last epoch it waits there for ``end``.
TRIAL = f"""\
import nni, os, sys, time
folder = sys.argv[1]
nni.get_next_parameter()
found = nni.load_checkpoint()
first, total = 0, 0
if found is not None:
    with open(found) as file:
        first, total = found.step + 1, int(file.read())
    assert total == sum(range(first)), "another checkpoint than the one of this step was in place"
with open(os.path.join(folder, "pid"), "w") as file:
    file.write(str(os.getpid()))
for epoch in range(first, {EPOCHS}):
    while epoch == {EPOCHS} - 1 and not os.path.exists(os.path.join(folder, "end")):
        time.sleep(0.05)
    time.sleep(0.2)
    with open(os.path.join(folder, "ran"), "a") as file:
        file.write("%d\\n" % epoch)
    total += epoch
    nni.report_intermediate_result(float(epoch))
    if epoch % {EPOCHS_PER_CHECKPOINT} == {EPOCHS_PER_CHECKPOINT} - 1:
        with nni.save_checkpoint(step=epoch) as path, open(path, "w") as file:
            file.write(str(total))
nni.report_final_result(float(total))
"""


class CountedEpochs:
    """An experiment of this one trial. ``interrupt`` it, and then ``has_run_each_epoch_once``."""

    def __init__(self, server: RunningServer, folder: Path, platform: dict[str, Any] | list[dict[str, Any]],
                 seed: int) -> None:
        self.server, self.folder, self._chance = server, folder / "epochs", random.Random(seed)
        code = folder / "code"
        for made in (self.folder, code):
            made.mkdir()
        (code / "trial.py").write_text(TRIAL)
        self.id = server.launch({
            "trialCommand": f"python3 trial.py {self.folder}", "trialCodeDirectory": str(code), "trialConcurrency": 1,
            "maxTrialNumber": 1, "searchSpace": {"x": {"_type": "uniform", "_value": [0, 1]}},
            "tuner": {"name": "Random"}, "retry": {"onFailure": 5, "onPlatformFailure": 5}, "checkpoints": {"keep": 2},
            "trainingService": platform}, code)
        self.interruptions = 0

    # --- looking ---------------------------------------------------------------------------

    def trial(self) -> dict[str, Any]:
        return next(iter(self.server.get_all(f"experiments/{self.id}/trials/")), {})

    def epochs_run(self) -> list[int]:
        """Each epoch as often as it was run, in this order."""
        file = self.folder / "ran"
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    def newest_kept(self) -> int:
        """Step of the newest checkpoint that counts; -1 without any."""
        with closing(sqlite3.connect(f"file:{self.server.data_folder}/nniweb.sqlite3?mode=ro", uri=True,
                                     timeout=90)) as database:
            [(step,)] = database.execute(
                "SELECT MAX(step) FROM experiments_checkpoint JOIN experiments_trial AS trial ON trial.id = trial_id "
                "JOIN experiments_experiment AS experiment ON experiment.id = experiment_id WHERE confirmed_at IS NOT "
                "NULL AND experiment.public_id = ?", [self.id])
        return -1 if step is None else int(step)

    # --- interrupting ----------------------------------------------------------------------

    def kill_trial(self) -> None:
        """kill -9 of its own process."""
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)

    def interrupt(self, ways: Sequence[Callable[[], None]], *, ends: bool = True) -> None:
        """Each of the ways once, in an order of the seed. The trial saves a checkpoint before each, and after it runs
        as many more epochs as the seed says, fewer than it runs from one checkpoint to the next. ``ends``: these are
        the last ones.
        """
        for way in self._chance.sample(ways, len(ways)):
            before = self.newest_kept()
            self.server.wait_until(lambda before=before: self.newest_kept() > before, PATIENCE, "a checkpoint is kept")
            last = self.newest_kept() + self._chance.randrange(EPOCHS_PER_CHECKPOINT - 1)
            self.server.wait_until(lambda last=last: self.epochs_run()[-1] >= last, PATIENCE, f"it runs epoch {last}")
            self.interruptions += 1
            way()
            self.server.wait_until(lambda: self.trial()["attempt"] == self.interruptions + 1, PATIENCE,
                                   f"an attempt follows {getattr(way, '__name__', way)}")
        if ends:
            (self.folder / "end").touch()

    # --- judging ---------------------------------------------------------------------------

    def has_run_each_epoch_once(self) -> None:
        """Each epoch is in the joined curve once, no more were run than the interruptions cost, the result is right."""
        self.server.wait_for_experiment(self.id, patience=PATIENCE)
        trial = self.trial()
        assert (trial["status"], trial["attempt"], trial["final_number"]) == (
            "SUCCEEDED", self.interruptions + 1, float(sum(range(EPOCHS)))), trial
        series, = self.server.get(f"experiments/{self.id}/series/", trials=trial["id"], points=400)["trials"]
        assert list(zip(series["steps"], series["values"], strict=True)) == [
            (epoch, float(epoch)) for epoch in range(EPOCHS)]
        ran = self.epochs_run()
        assert set(ran) == set(range(EPOCHS))
        assert len(ran) <= EPOCHS + self.interruptions * EPOCHS_PER_CHECKPOINT, ran
        events = self.server.get(f"trials/{trial['id']}/events/")["results"]
        resumed = [event["message"] for event in events if event["kind"] == "resumed"]
        assert len(resumed) == self.interruptions, events
