"""Rewrites files in a process of its own, which may take only so much time and memory.

The code is anybody's, and Python's parser can be made to take very long, very much, or the whole process with it.
Nothing of the code is run.

``python -m nniweb.annotation.reading_process`` reads a JSON object from its input, ``{"files": {name: base64}}``, and
writes one: ``space``, ``places`` (parameter: [file, line]), ``sources`` (name: base64, of the files that change) and
``problems`` ([file, line, sentence]). The name of the file it is at goes to stderr, a line each.
"""

from __future__ import annotations

import base64
import json
import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nniweb
from nniweb.annotation.reading_slots import NoSlot, slots
from nniweb.annotation.rewriting import rewrite

#: Seconds for all files together.
PATIENCE = 30.0
_MEMORY = 1024**3
#: Bytes that the rewritten files may have together.
MOST_WRITTEN = 64 * 1024**2


@dataclass(frozen=True)
class FileProblem:
    """What is wrong in a file; ``line`` 0: with the file, or with the whole code (``file`` "")."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}: " if self.line else f"{self.file}: " if self.file else ""
        return place + self.message


class AnnotationsInvalid(Exception):
    """The annotations cannot be carried out. ``problems`` lists what was found, file by file."""

    def __init__(self, problems: list[FileProblem]) -> None:
        self.problems = problems
        super().__init__(" ".join(map(str, problems)))


@dataclass(frozen=True)
class RewrittenFiles:
    """``search_space``: of all files. ``places``: parameter -> file and line. ``sources``: of the files that change."""

    search_space: dict[str, dict[str, Any]]
    places: dict[str, tuple[str, int]]
    sources: dict[str, bytes]


def rewrite_files(files: Mapping[str, bytes], patience: float = PATIENCE) -> RewrittenFiles:
    """Carry out the annotations of files, by their names with slashes. Blocking. Raises AnnotationsInvalid."""
    try:
        with slots.slot():
            return _rewrite_files(files, patience)
    except NoSlot as full:
        raise AnnotationsInvalid([FileProblem("", 0, str(full))]) from None


def _rewrite_files(files: Mapping[str, bytes], patience: float) -> RewrittenFiles:
    asked = json.dumps({"files": {name: base64.b64encode(source).decode() for name, source in files.items()}})
    process = subprocess.Popen([sys.executable, "-m", "nniweb.annotation.reading_process"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
                               cwd=Path(nniweb.__file__).resolve().parent.parent)
    try:
        answer, said = process.communicate(asked, timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        _, said = process.communicate()
        raise AnnotationsInvalid([FileProblem(_last_name(said, files), 0, (
            f"the annotations were not read within {patience:g} s. Shorten the file, or leave files that the trials do "
            "not need out with .nniignore."))]) from None
    if process.returncode != 0:
        raise AnnotationsInvalid([FileProblem(_last_name(said, files), 0, (
            "the annotations cannot be read: Python's parser gave up on the file. Shorten it, or remove deeply nested "
            "code."))])
    found = json.loads(answer)
    if found["problems"]:
        raise AnnotationsInvalid([FileProblem(*problem) for problem in found["problems"]])
    return RewrittenFiles(found["space"], {key: (file, line) for key, (file, line) in found["places"].items()},
                          {name: base64.b64decode(source) for name, source in found["sources"].items()})


def _last_name(said: str, files: Mapping[str, bytes]) -> str:
    """The file that the process was at."""
    names = [line for line in map(_unquoted, said.splitlines()) if line in files]
    return names[-1] if names else ""


def _unquoted(line: str) -> str:
    try:
        return str(json.loads(line))
    except ValueError:
        return ""


def answer_to(files: Mapping[str, bytes]) -> dict[str, Any]:
    """What the process answers."""
    space: dict[str, Any] = {}
    places: dict[str, tuple[str, int]] = {}
    sources: dict[str, str] = {}
    problems: list[tuple[str, int, str]] = []
    written = 0
    for name, source in files.items():
        print(json.dumps(name), file=sys.stderr, flush=True)  # noqa: T201  # to the process that asked
        found = rewrite(source, name.removesuffix(".py").replace("/", "."))
        problems += [(name, problem.line, problem.message) for problem in found.problems]
        for key, parameter in found.parameters.space.items():
            line = found.parameters.lines[key]
            if key in space and space[key] != parameter:
                problems.append((name, line, f"{key} is also a parameter of {places[key][0]}, with other values, "
                                             "because both files have the same module name. Rename a file."))
            space.setdefault(key, parameter)
            places.setdefault(key, (name, line))
        if found.source is not None:
            written += len(found.source)
            if written > MOST_WRITTEN:
                problems.append((name, 0, "with the annotations applied, the code has more than "
                                          f"{MOST_WRITTEN // 2**20} MB. Give the parameters fewer options."))
                break
            sources[name] = base64.b64encode(found.source).decode()
    return {"space": space, "places": places, "sources": sources, "problems": problems}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(PATIENCE), int(PATIENCE)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")  # of the code: "\d" in a text, for one
    asked = json.load(sys.stdin)["files"]
    sys.setrecursionlimit(5000)
    json.dump(answer_to({name: base64.b64decode(source) for name, source in asked.items()}), sys.stdout)


if __name__ == "__main__":
    main()
