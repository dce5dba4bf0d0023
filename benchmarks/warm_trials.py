"""How fast warm trials are: the product with ``warmStart`` beside ``xargs`` with the same script, in the same run.

Eight at a time, on the local platform of a real server, with the tuner Random and our ``nni`` module:

* trials that learn to read scikit-learn's digits from a few of them: the import is nearly all of the time;
* trials that do nothing, warm and, for information, plain;
* with ``--torch``: trials that import PyTorch, where it is installed.

    .venv/bin/python benchmarks/warm_trials.py [--rounds 5] [--trials 200] [--torch] [--only torch,nothing]
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from benchmarks.trial_start import NOTHING, by_us, by_xargs  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402

#: At most so many times the wall time of ``xargs``.
DIGITS_LIMIT, NOTHING_LIMIT, TORCH_LIMIT = 0.25, 1.0, 0.15
DIGITS = """
import nni
from sklearn.datasets import load_digits
from sklearn.svm import SVC

parameters = nni.get_next_parameter()
digits = load_digits()
model = SVC(C=0.1 + parameters.get("x", 0.5)).fit(digits.data[:100], digits.target[:100])
nni.report_final_result(float(model.score(digits.data[100:200], digits.target[100:200])))
"""
TORCH = """
import nni
import torch

parameters = nni.get_next_parameter()
nni.report_final_result(float(torch.tensor([parameters.get("x", 0.5)]).sum()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--torch", action="store_true", help="also trials that import PyTorch")
    parser.add_argument("--only", default="", help="only these kinds of trials: digits, nothing, plain, torch")
    options = parser.parse_args()
    report = Report(__file__)
    scripts = {"digits": (DIGITS, {"warmStart": True}, "that learn digits, warm", DIGITS_LIMIT),
               "nothing": (NOTHING, {"warmStart": True}, "that do nothing, warm", NOTHING_LIMIT),
               "plain": (NOTHING, {}, "that do nothing, plain", None)}
    if options.torch:
        if importlib.util.find_spec("torch") is None:
            parser.error(f"--torch: {sys.executable} has no PyTorch. Run this with a Python that has it")
        scripts["torch"] = (TORCH, {"warmStart": True}, "that import PyTorch, warm", TORCH_LIMIT)
    only = [key for key in options.only.split(",") if key]
    if unknown := [key for key in only if key not in scripts]:
        parser.error(f"--only: there are no trials {', '.join(unknown)}, but {', '.join(scripts)}")
    scripts = {key: script for key, script in scripts.items() if not only or key in only}
    with tempfile.TemporaryDirectory() as name, closing(RunningServer(Path(name) / "data")) as server:
        server.start()
        for key, (script, more, what, limit) in scripts.items():
            folder = Path(name) / key
            folder.mkdir()
            (folder / "trial.py").write_text(script)
            ratios = rounds(server, folder, options.rounds, options.trials, more, what)
            report.add(f"{options.trials} trials {what}", statistics.median(ratios), "x xargs", limit=limit)
    return report.finish()


def rounds(server: RunningServer, folder: Path, count: int, trials: int, more: dict[str, Any], what: str
           ) -> list[float]:
    """Wall time here by that of ``xargs``, for each round."""
    by_xargs(folder, 8)
    by_us(server, folder, 8, **more)  # what is done once for an installation
    ratios = []
    for _ in range(count):
        limit = by_xargs(folder, trials)
        wall, _, cpu = by_us(server, folder, trials, **more)
        print(f"  {trials} trials {what}: xargs {limit:.2f} s, here {wall:.2f} s, "
              f"server {1000 * cpu / trials:.1f} ms a trial", flush=True)
        ratios.append(wall / limit)
    return ratios


if __name__ == "__main__":
    sys.exit(main())
