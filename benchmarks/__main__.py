"""Run the benchmarks one after the other, and print what they found as a table.

    .venv/bin/python -m benchmarks                  # all, half an hour; writes benchmarks/results/README.md, too
    .venv/bin/python -m benchmarks refill ingest    # these
    .venv/bin/python -m benchmarks --quick          # all with less of everything, minutes; keeps nothing
    .venv/bin/python -m benchmarks --table          # the table of the kept figures, without running anything

Each has a time within which it must end, and is ended then, with all that it started; Ctrl-C does the same and writes
the table of what was found until then. Ends with 1 where one failed or missed its target.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import MISSED, RESULTS, RESULTS_VARIABLE, keep_faults, table
from trainingservice.testing.processes import end_processes, processes_of

HERE = Path(__file__).resolve().parent
#: Seconds for a program that was interrupted to take down what it started.
GRACE = 60.0


@dataclass(frozen=True)
class Program:
    """``minutes``: it is ended after so many. ``quick``: arguments with which it does less."""

    minutes: float = 10
    quick: tuple[str, ...] = ()


#: In the order in which they run: what is told of first, first.
PROGRAMS = {
    "trial_start": Program(15, ("--rounds", "1", "--trials", "40", "--sleeping-rounds", "1")),
    "warm_trials": Program(45, ("--rounds", "1", "--trials", "24")),
    "metric_sources": Program(10, ("--rounds", "1", "--seconds", "1")),
    "warm_places": Program(20, ("--trials", "12", "--plain", "8", "--start", "2", "--slurm-trials", "6")),
    "refill": Program(10, ("--trials", "20")),
    "startup": Program(10, ("--rounds", "1")),
    "idle": Program(5, ("--seconds", "3")),
    "report_to_rest": Program(10, ("--metrics", "20")),
    "ingest": Program(20, ("--seconds", "2", "--rounds", "1")),
    "remote_start": Program(5, ("--rounds", "1")),
    "remote_trials": Program(20, ("--rounds", "1", "--trials", "40")),
    "statements": Program(5, ("--rounds", "100")),
    "budgets": Program(5, ("--rows", "2000", "--rounds", "50")),
    "traces": Program(5, ("--points", "20000", "--reports", "50")),
    "placement": Program(10, ("--trials", "200")),
    "gpu_packing": Program(10, ("--seeds", "1", "--trials", "150")),
    "tuner_suggestions": Program(10, ("--trials", "1000")),
    "search_quality": Program(120, ("--seeds", "1", "--at-once", "8", "--objectives", "sphere", "nested",
                                   "--searchers", "TPE", "Anneal", "Random", "Optuna TPE")),
    "start_from": Program(60, ("--seeds", "1", "--tuners", "TPE", "--at-once", "1", "--functions", "sphere", "nested")),
    "start_from_objectives": Program(120, ("--seeds", "1", "--at-once", "1")),
    "promotion": Program(20, ("--seeds", "2", "--tuners", "Hyperband", "--at-once", "1")),
    "replicates": Program(30, ("--seeds", "2", "--tuners", "Random", "--at-once", "1")),
    "live_latency": Program(10, ("20",)),
    "long_histories": Program(30, ("--trials", "2000", "--rounds", "1")),
    "large_database": Program(60, ("--database", "sqlite", "--experiments", "100", "--trials", "2000",
                                   "--metrics", "20000", "--within", "1000")),
    "checkpoints": Program(15, ("--megabytes", "128", "--rounds", "1")),
    "retention": Program(20, ("--trials", "300", "--seconds", "2")),
    "dashboard": Program(30, ("1000x10",)),
    "many_running": Program(15, ("--trials", "500", "--seconds", "20")),
    "several_webs": Program(20, ("--keepers", "200", "--seconds", "4", "--rounds", "1")),
    "fleet": Program(25, ("--keepers", "500", "--minutes", "0.5")),
    "kubernetes_scale": Program(40, ("--trials", "100", "1000")),
    "recovery": Program(15, ("--real", "10", "--simulated", "100")),
    "cost_curves": Program(40, ("--rounds", "1", "--databases", "sqlite")),
    "soak": Program(25),
    "newcomers_walk": Program(15),
}
#: A quick run leaves out what cannot be shortened.
NOT_QUICK = {"newcomers_walk", "soak"}


def run(name: str, arguments: tuple[str, ...], minutes: float, environment: dict[str, str]) -> str:
    """Run one to its end. Why it is no success; "" where it is. Raises KeyboardInterrupt, with all of it ended."""
    begin = time.time()
    mark = f"BENCHMARK_RUN={uuid.uuid4().hex}"
    variable, _, value = mark.partition("=")
    # a session of its own: Ctrl-C is for this program, which passes it on and waits
    process = subprocess.Popen([sys.executable, str(HERE / f"{name}.py"), *arguments], start_new_session=True,
                               stdin=subprocess.DEVNULL, env={**os.environ, **environment, variable: value})
    try:
        status = process.wait(minutes * 60)
        if status == 0:
            return ""
        kept = Path(environment[RESULTS_VARIABLE]) / f"{name}.json"
        is_measured = kept.exists() and kept.stat().st_mtime >= begin
        return MISSED if status == 1 and is_measured else f"failed (exit status {status})"
    except subprocess.TimeoutExpired:
        return f"did not end within {minutes:g} minutes"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if left := processes_of([mark]):
            print(f"ended what {name} left running: {', '.join(str(each.pid) for each in left)}", flush=True)
            end_processes(left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--quick", action="store_true", help="do less of everything, and keep nothing")
    parser.add_argument("--table", action="store_true", help="print what was kept and run nothing")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background job would ignore the first
        signal.signal(number, signal.default_int_handler)
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    if options.table:
        print(table(order=PROGRAMS))
        return 0
    names = options.programs or [name for name in PROGRAMS if not (options.quick and name in NOT_QUICK)]
    with tempfile.TemporaryDirectory() as kept_for_now:
        results = Path(kept_for_now) if options.quick else RESULTS
        faults = run_all(names, options.quick, results)
        keep_faults(results, names, faults)
        text = table(results, order=PROGRAMS)
        print(f"\n{text}")
        if not options.quick:
            (results / "README.md").write_text(f"# What `make bench` measured\n\n{text}\n")
    if faults:
        print("\n" + "\n".join(f"{name}: {fault}" for name, fault in faults.items()))
    return 1 if faults else 0


def run_all(names: list[str], is_quick: bool, results: Path) -> dict[str, str]:
    """Run these. What went wrong, by name."""
    results.mkdir(exist_ok=True)
    begin = time.monotonic()
    faults: dict[str, str] = {}
    for number, name in enumerate(names):
        program = PROGRAMS[name]
        print(f"\n== {name} ({number + 1} of {len(names)}, {(time.monotonic() - begin) / 60:.0f} min so far, it gets "
              f"{program.minutes:g} at most)", flush=True)
        try:
            fault = run(name, program.quick if is_quick else (), program.minutes, {RESULTS_VARIABLE: str(results)})
        except KeyboardInterrupt:
            faults |= dict.fromkeys(names[number:], "was interrupted")
            break
        if fault:
            print(f"{name}: {fault}", flush=True)
            faults[name] = fault
    return faults


if __name__ == "__main__":
    sys.exit(main())
