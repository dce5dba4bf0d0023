"""What a benchmark found: figures beside their limits, printed as they come and kept in ``benchmarks/results/``.

    report = Report(__file__)
    report.add("slot free until the next trial runs, median", 31.0, "ms", limit=40.0)
    sys.exit(report.finish())

Times mean little on a machine that does other things as well, so a figure stands beside a limit that was measured in
the same run wherever there is one. ``python -m benchmarks`` runs all of them and prints the table.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: What is said of a program whose figures are there and not as good as they should be.
MISSED = "missed a target"
#: Folder for the figures, where it is another one than RESULTS.
RESULTS_VARIABLE = "BENCHMARK_RESULTS"
RESULTS = Path(__file__).resolve().parent / "results"
#: File beside the figures: what went wrong when programs were run last, by name. A run of some leaves the rest.
FAULTS_FILE = "faults.json"


@dataclass(frozen=True)
class Figure:
    """One line of the table. ``target``: what is aimed at; ``measured`` may be no worse (None: told only)."""

    what: str
    measured: float
    unit: str
    target: float | None
    #: Whether more is better (a rate), not less (a time).
    at_least: bool
    #: What the machine or another program reached in the same run.
    beside: str

    @property
    def is_met(self) -> bool:
        if self.target is None:
            return True
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    @property
    def line(self) -> str:
        bound = "" if self.target is None else f"{'at least' if self.at_least else 'at most'} {in_short(self.target)}"
        mark = "" if self.target is None else "  met" if self.is_met else "  MISSED"
        beside = f"  ({self.beside})" if self.beside else ""
        return f"{self.what:72} {in_short(self.measured):>9} {self.unit:14} {bound:18}{mark}{beside}"


class Report:
    """The figures of one benchmark, a program under ``benchmarks/``. Used by one thread."""

    def __init__(self, program: str) -> None:
        self._name = Path(program).stem
        self._figures: list[Figure] = []
        self._machine = machine()
        for number in (signal.SIGINT, signal.SIGTERM):  # whoever ends it early, what it started is ended, too
            signal.signal(number, signal.default_int_handler)
        print(f"{self._name}: {self._machine['cores']} cores, load {self._machine['load']:.1f}", flush=True)

    def add(self, what: str, measured: float, unit: str, *, limit: float | None = None, at_least: bool = False,
            beside: str = "") -> None:
        """``limit``: what the figure has to reach; ``beside``: in words, what it was measured against."""
        figure = Figure(what, measured, unit, limit, at_least, beside)
        self._figures.append(figure)
        print(figure.line, flush=True)

    def finish(self, *, is_whole: bool | None = None) -> int:
        """Keep the figures; 1 where one misses its limit, as an exit status.

        A program that was given arguments measured less, or something else: its figures do not replace those of a
        whole run, unless a folder of their own is named. ``is_whole``: the program knows whether it measured less.
        """
        named = os.environ.get(RESULTS_VARIABLE)
        if named or (not sys.argv[1:] if is_whole is None else is_whole):
            self._keep(Path(named or RESULTS))
        else:
            why = "was given arguments" if is_whole is None else "did not measure everything"
            print(f"These figures are not kept: {self._name} {why}. {RESULTS_VARIABLE}=FOLDER keeps them.", flush=True)
        return 0 if all(figure.is_met for figure in self._figures) else 1

    def _keep(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        kept = {"benchmark": self._name, "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "machine": self._machine, "figures": [asdict(figure) for figure in self._figures]}
        (folder / f"{self._name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    memory = 0.0
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, ValueError):
        pass  # not Linux: the rest says enough
    return {"processor": model, "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
            else os.cpu_count(), "memory_gib": round(memory, 1), "system": platform.platform(terse=True),
            "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)}


def in_short(number: float) -> str:
    """Three digits that count, without an exponent."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def kept_faults(folder: Path) -> dict[str, str]:
    """What went wrong with each program when it was run last, by name; programs that went well are not there."""
    try:
        return dict(json.loads((folder / FAULTS_FILE).read_text()))
    except FileNotFoundError:
        return {}


def keep_faults(folder: Path, names: Iterable[str], faults: Mapping[str, str]) -> None:
    """These programs were run just now, and this went wrong with them. What is known of others stays."""
    known = kept_faults(folder)
    for name in names:
        known.pop(name, None)
    known |= faults
    (folder / FAULTS_FILE).write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


def table(folder: Path = RESULTS, order: Iterable[str] = ()) -> str:
    """All kept figures as a table in Markdown, the programs in this order and then the others.

    The figures of a program that did not come to its end the last time are those of an earlier run, and it says so.
    """
    faults = kept_faults(folder)
    found = {path.stem: path for path in sorted(folder.glob("*.json")) if path.name != FAULTS_FILE}
    names = [name for name in order if name in found or name in faults]
    lines = []
    for name in [*names, *(name for name in found if name not in names)]:
        fault = faults.get(name, "")
        if name not in found:
            lines += [f"\n**{name}** – no figures: it {fault}"]
            continue
        kept = json.loads(found[name].read_text())
        on = kept["machine"]
        earlier = f"; it {fault} the last time, and these are of the time before" \
            if fault and fault != MISSED else ""
        lines += [f"\n**{name}** – {kept['at'][:10]}, {on['processor']}, {on['cores']} cores, "
                  f"{on['memory_gib']} GiB, Python {on['python']}, load at the start {on['load']}{earlier}\n",
                  "| what | measured | target | |", "|---|---|---|---|"]
        for row in kept["figures"]:
            figure = Figure(**row)
            target = "" if figure.target is None else \
                f"{'≥' if figure.at_least else '≤'} {in_short(figure.target)} {figure.unit}"
            mark = "" if figure.target is None else "met" if figure.is_met else "**missed**"
            beside = f" ({figure.beside})" if figure.beside else ""
            lines.append(f"| {figure.what}{beside} | {in_short(figure.measured)} {figure.unit} | {target} | {mark} |")
    return "\n".join(lines).strip()


if __name__ == "__main__":
    sys.exit("This is what the benchmarks share; run them with: python -m benchmarks")
