"""The imports of the three Python packages, read by grimp, which import-linter uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("nniweb", "trainingservice", "trialkeeper")
#: Folders whose parts are listed with the arrows between them.
HOUSES = ("nniweb", "nniweb.experiments", "nniweb.api", "nniweb.worker", "nniweb.tuning", "trainingservice")
#: More files than this on one level of a folder are told.
MOST_FILES = 20

Imports = Mapping[str, set[str]]


def imports_of_modules() -> Imports:
    """Which modules each module imports, at its top, in a function or for type hints alone."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def files_per_folder() -> dict[str, int]:
    """Python files of each folder, less ``__init__.py``; paths from the top of the repository."""
    counts: dict[str, int] = defaultdict(int)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if path.name != "__init__.py":
                counts[str(path.parent.relative_to(ROOT))] += 1
    return dict(counts)


def lines_of_code() -> dict[str, int]:
    """Lines of each package that are neither empty nor only a comment."""
    return {package: sum(bool(line.strip()) and not line.lstrip().startswith("#")
                         for path in (ROOT / package).rglob("*.py") for line in path.read_text().splitlines())
            for package in PACKAGES}


def circles(imports: Imports) -> list[list[str]]:
    """Sets of modules of which each is reached from each other one (Tarjan's algorithm), sorted."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_modules: list[str] = []
    found: list[list[str]] = []

    for start in imports:
        if start in numbers:
            continue
        numbers[start] = lowest[start] = len(numbers)
        open_modules.append(start)
        path = [(start, iter(sorted(imports.get(start, ()))))]
        while path:
            module, following = path[-1]
            for other in following:
                if other not in numbers:
                    numbers[other] = lowest[other] = len(numbers)
                    open_modules.append(other)
                    path.append((other, iter(sorted(imports.get(other, ())))))
                    break
                if other in open_modules:
                    lowest[module] = min(lowest[module], numbers[other])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[module])
                if lowest[module] == numbers[module]:
                    place = open_modules.index(module)
                    if len(open_modules) - place > 1:
                        found.append(sorted(open_modules[place:]))
                    del open_modules[place:]
    return sorted(found)


def arrows(imports: Imports, house: str) -> dict[tuple[str, str], int]:
    """Imports between the direct parts of a folder: (from, to) -> how many."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for module, others in imports.items():
        for other in others:
            source, target = _part(module, house), _part(other, house)
            if source and target and source != target:
                counts[source, target] += 1
    return dict(counts)


def _part(module: str, house: str) -> str:
    return module[len(house) + 1:].partition(".")[0] if module.startswith(house + ".") else ""


def back_arrows(between: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Arrows that are part of a circle of folders."""
    targets: dict[str, set[str]] = defaultdict(set)
    for source, target in between:
        targets[source].add(target)
        targets[target].update(())
    return sorted((source, target) for circle in circles(targets) for source in circle
                  for target in targets[source] if target in circle)
