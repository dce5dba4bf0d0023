"""An experiment with ``gpuMemory: auto`` through the whole server: its trials have GPUs for themselves until it is
known what they need, and share them then. The GPUs are a program and a folder in which trials say what they take.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.end_to_end.running_server import RunningServer
from tests.fakes.nvidia_smi import FILE_VARIABLE, FakeNvidiaSmi

MIB, TOTAL, GPUS, TRIALS = 1024 ** 2, 16384, 2, 26
#: Takes 512 MiB and 16 for each of its batch, or runs out of memory as PyTorch does it where that is not left.
TRAINS = """
import fcntl, json, os, pathlib, sys, time
import nni
batch = nni.get_next_parameter()["batch"]
held, log = pathlib.Path(sys.argv[1]), open(sys.argv[2], "a")
gpu, needs = os.environ["CUDA_VISIBLE_DEVICES"], 512 + 16 * batch
def note(word):
    log.write(json.dumps([word, os.environ["NNI_TRIAL_JOB_ID"], gpu, needs]) + "\\n")
    log.flush()
with open(sys.argv[2] + ".lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    others = [path.read_text().split() for path in held.iterdir() if os.path.exists("/proc/" + path.name)]
    if sum(int(size) for index, size in others if index == gpu) + needs > {total}:
        note("out")
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d MiB." % needs)
    (held / str(os.getpid())).write_text("%s %d" % (gpu, needs))
    note("begin")
time.sleep(1.7)
nni.report_final_result(batch)
note("end")
(held / str(os.getpid())).unlink()
""".replace("{total}", str(TOTAL))


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_trials_share_gpus_when_it_is_known_what_they_need_and_none_is_lost(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, held, log = tmp_path / "code", tmp_path / "held", tmp_path / "log"
    code.mkdir()
    held.mkdir()
    (code / "train.py").write_text(TRAINS)
    gpus = FakeNvidiaSmi(tmp_path / "nvidia", monkeypatch, GPUS)
    gpus.state["held"] = str(held)
    gpus.write()
    variables = {name: os.environ[name] for name in ("PATH", FILE_VARIABLE)}
    with closing(RunningServer(tmp_path / "data", variables)) as server:
        server.start()
        experiment = server.launch({
            "trialCommand": f"python3 train.py {held} {log}", "trialCodeDirectory": str(code), "trialGpuNumber": 1,
            "gpuMemory": "auto", "trialConcurrency": 12, "maxTrialNumber": TRIALS,
            "searchSpace": {"batch": {"_type": "randint", "_value": [32, 192]}},
            "tuner": {"name": "Random", "classArgs": {"seed": 5}}, "trainingService": {"platform": "local"}}, code)
        server.wait_for_experiment(experiment, patience=200)
        trials = server.get_all(f"experiments/{experiment}/trials/")
        attempts = {trial["id"]: server.get_all(f"trials/{trial['id']}/attempts/") for trial in trials}
    assert Counter(trial["status"] for trial in trials) == {"SUCCEEDED": TRIALS}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    beside: Counter[str] = Counter()
    most, began = [], 0
    for word, _, gpu, _ in lines:
        beside[gpu] += {"begin": 1, "end": -1, "out": 0}[word]
        began += word == "begin"
        most.append((began, beside[gpu]))
    assert max(count for number, count in most if number <= 5) == 1, "as a whole, until five have shown what they need"
    assert max(count for _, count in most) >= 4
    # who ran out beside others ran again, and nobody a third time
    ran_out = Counter(trial for word, trial, _, _ in lines if word == "out")
    assert all(count == 1 for count in ran_out.values())
    needs = {trial: size for word, trial, _, size in lines if word == "begin"}
    peaks = {trial: each[-1]["gpu_peak"] for trial, each in attempts.items()}
    seen = {trial: peak for trial, peak in peaks.items() if peak is not None}
    assert len(seen) > TRIALS // 2
    assert seen == {trial: needs[trial] * MIB for trial in seen}
