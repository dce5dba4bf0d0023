"""Run the benchmarks one after the other, and print what they found as a table.

    .venv/bin/python -m benchmarks                  # all; the table is also in benchmarks/results/README.md
    .venv/bin/python -m benchmarks refill ingest    # these
    .venv/bin/python -m benchmarks --table          # the table of the kept figures, without running anything

Ends with 1 where one failed or missed its target.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.reporting import RESULTS, table

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("__main__", "reporting"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--table", action="store_true", help="print what was kept and run nothing")
    options = parser.parse_args()
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    missed = []
    for name in [] if options.table else options.programs or PROGRAMS:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode:
            missed.append(name)
    text = table()
    print(f"\n{text}")
    if not options.table:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "README.md").write_text(f"# What `make bench` measured\n\n{text}\n")
    if missed:
        print(f"\nfailed, or missed a target: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
