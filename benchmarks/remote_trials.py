"""Trials over SSH beside the same trials on the local platform, in the same run: 200 that do nothing, 8 at a time.

The machine is a real sshd on loopback, the server a real one, the tuner Random. Twice: as it comes, where the server
listens on loopback only and what keepers report goes through the machine's agent and the SSH connection; and where
the config says by which address the machine reaches the server (nniManagerIp).

    .venv/bin/python benchmarks/remote_trials.py [--rounds 3] [--trials 200]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.reporting import Report  # noqa: E402
from benchmarks.trial_start import AT_ONCE, NOTHING, by_us  # noqa: E402
from tests.end_to_end.running_server import RunningServer  # noqa: E402
from tests.fakes.ssh_machine import SshMachine  # noqa: E402

#: At most so many times the wall time of the local platform.
LIMIT = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=200)
    options = parser.parse_args()
    report = Report(__file__)
    with tempfile.TemporaryDirectory() as name, SshMachine(Path(name) / "ada") as machine, \
            closing(RunningServer(Path(name) / "data")) as server:
        code = Path(name) / "code"
        code.mkdir()
        (code / "trial.py").write_text(NOTHING)
        over_ssh: dict[str, Any] = {"platform": "remote", "machineList": [machine.in_config()]}
        ways = {"local": {"platform": "local"}, "over SSH, reports too": over_ssh,
                "over SSH, reports by HTTP": {**over_ssh, "nniManagerIp": "127.0.0.1"}}
        server.start()
        for service in ways.values():  # what is done once for a machine: connection, agent, keeper, byte code
            by_us(server, code, AT_ONCE, service)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(options.rounds):
            for way, service in ways.items():
                wall, _, cpu = by_us(server, code, options.trials, service)
                seconds[way].append(wall)
                spent[way].append(1000 * cpu / options.trials)
            print(f"  round {number + 1}: " + ", ".join(f"{way} {seconds[way][-1]:.1f} s ({spent[way][-1]:.0f} ms of "
                                                        "the server's processor a trial)" for way in ways), flush=True)
    for way in list(ways)[1:]:
        ratios = [there / here for there, here in zip(seconds[way], seconds["local"], strict=True)]
        report.add(f"{options.trials} trials {way}, {AT_ONCE} at a time", statistics.median(ratios), "x local",
                   limit=LIMIT, beside=f"{statistics.median(seconds[way]):.1f} s beside "
                                       f"{statistics.median(seconds['local']):.1f} s")
        report.add(f"processor time of the server for a trial {way}", statistics.median(spent[way]), "ms",
                   beside=f"local: {statistics.median(spent['local']):.0f} ms")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
