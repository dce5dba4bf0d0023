"""The results of single searches, in a file that grows: a run that was interrupted goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """``best``: by budget; None where the searcher cannot search this space, and ``problem`` says why."""

    searcher: str
    objective: str
    at_once: int
    seed: int
    best: tuple[float, ...] | None
    repeats: int = 0
    problem: str = ""

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Two runs with the same key have the same result."""
        return self.searcher, self.objective, self.at_once, self.seed


def kept_results(path: Path) -> list[Result]:
    """A result in each line. A line that a process could not finish is left out."""
    found = []
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        found.append(Result(**{**row, "best": None if row["best"] is None else tuple(row["best"])}))
    return found


def keep_each(path: Path, results: Iterable[Result]) -> Iterator[Result]:
    """The same results, each of which is in the file before the next one is asked for."""
    is_cut = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        if is_cut:
            file.write("\n")
        for result in results:
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            yield result
