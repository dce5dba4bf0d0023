"""Variants for people: unified diffs, worked out when somebody looks. However the texts are, in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

from trainingservice.variants.code_variant import ChangedFile, VariantContent

#: Lines around a change.
CONTEXT = 3
#: Pairs of lines that are compared for all files together. What goes beyond is shown as replaced.
MOST_PAIRS = 2_000_000

OpCode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class DiffLine:
    """``kind``: "hunk" (a line that says where), "context", "added", "removed" or "no-newline"."""

    kind: str
    text: str


@dataclass(frozen=True)
class ChangedFileShown:
    """``change``: "changed", "added" or "removed"."""

    file: ChangedFile
    change: str
    lines: tuple[DiffLine, ...]
    added: int
    removed: int


def shown_files(files: Sequence[ChangedFile]) -> list[ChangedFileShown]:
    """What changes in each of them, from ``before`` to ``text``."""
    budget = _Budget(MOST_PAIRS)
    found = []
    for file in files:
        lines = tuple(_diff(file, budget))
        change = "added" if file.before is None else "removed" if file.text is None else "changed"
        found.append(ChangedFileShown(file, change, lines, sum(line.kind == "added" for line in lines),
                                      sum(line.kind == "removed" for line in lines)))
    return found


def between(old: VariantContent | None, new: VariantContent | None) -> list[ChangedFile]:
    """What changes from one variant of a code to another one of it; None: the code as it is."""
    first = {} if old is None else {file.path: file for file in old.files}
    second = {} if new is None else {file.path: file for file in new.files}
    changes = []
    for path in sorted({*first, *second}):
        here, there = first.get(path), second.get(path)
        before, was_executable = (here.text, here.executable) if here is not None else _of_code(there)
        text, executable = (there.text, there.executable) if there is not None else _of_code(here)
        if (before, was_executable) != (text, executable):
            changes.append(ChangedFile(path, text, before, executable, was_executable))
    return changes


def _of_code(file: ChangedFile | None) -> tuple[str | None, bool]:
    return (None, False) if file is None else (file.before, file.executable_before)


def diff_text(shown: Sequence[ChangedFileShown]) -> str:
    """A unified diff that git takes."""
    pieces = []
    for one in shown:
        path = one.file.path
        pieces.append(f"diff --git a/{path} b/{path}\n")
        mode, before = _mode(one.file.executable), _mode(one.file.executable_before)
        if one.change == "added":
            pieces.append(f"new file mode {mode}\n")
        elif one.change == "removed":
            pieces.append(f"deleted file mode {before}\n")
        elif mode != before:
            pieces.append(f"old mode {before}\nnew mode {mode}\n")
        if one.lines:
            pieces.append(f"--- {'/dev/null' if one.change == 'added' else f'a/{path}'}\n"
                          f"+++ {'/dev/null' if one.change == 'removed' else f'b/{path}'}\n")
        pieces += [f"{_SIGNS[line.kind]}{line.text}\n" for line in one.lines]
    return "".join(pieces)


_SIGNS = {"hunk": "", "context": " ", "added": "+", "removed": "-", "no-newline": "\\ "}


def _mode(executable: bool) -> str:
    return "100755" if executable else "100644"


class _Budget:
    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, pairs: int) -> bool:
        """Whether there is so much; then it is taken."""
        if pairs > self._left:
            return False
        self._left -= pairs
        return True


def _lines(text: str) -> list[str]:
    """With their ends; only a line feed ends one."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _diff(file: ChangedFile, budget: _Budget) -> Iterator[DiffLine]:
    old, new = _lines(file.before or ""), _lines(file.text or "")
    matcher: SequenceMatcher[str] = SequenceMatcher(None, [], [], autojunk=False)
    matcher.opcodes = _op_codes(old, new, budget)  # type: ignore[attr-defined]  # what get_opcodes would work out
    for group in matcher.get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        yield DiffLine("hunk", f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from _of_kind("context", old[old_from:old_to])
            else:
                yield from _of_kind("removed", old[old_from:old_to])
                yield from _of_kind("added", new[new_from:new_to])


def _of_kind(kind: str, lines: Sequence[str]) -> Iterator[DiffLine]:
    for line in lines:
        yield DiffLine(kind, line.removesuffix("\n"))
        if not line.endswith("\n"):
            yield DiffLine("no-newline", "No newline at end of file")


def _range(start: int, end: int) -> str:
    """As unified diffs write it: an empty one names the line before."""
    length = end - start
    return f"{start + 1 if length else start},{length}"


def _op_codes(old: Sequence[str], new: Sequence[str], budget: _Budget) -> list[OpCode]:
    """As ``SequenceMatcher.get_opcodes``. What is the same at both ends costs nothing."""
    if old == new:
        return []
    before = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    most = min(len(old), len(new)) - before
    after = 0
    while after < most and old[len(old) - 1 - after] == new[len(new) - 1 - after]:
        after += 1
    middle_old, middle_new = old[before:len(old) - after], new[before:len(new) - after]
    inner: list[OpCode]
    if middle_old and middle_new and budget.take(len(middle_old) * len(middle_new)):
        inner = [(tag, *places) for tag, *places in SequenceMatcher(  # type: ignore[misc]
            None, middle_old, middle_new, autojunk=len(middle_old) + len(middle_new) > 200).get_opcodes()]
    else:
        tag = "replace" if middle_old and middle_new else "delete" if middle_old else "insert"
        inner = [(tag, 0, len(middle_old), 0, len(middle_new))]
    codes: list[OpCode] = [("equal", 0, before, 0, before)] if before else []
    codes += [(tag, old_from + before, old_to + before, new_from + before, new_to + before)
              for tag, old_from, old_to, new_from, new_to in inner]
    if after:
        codes.append(("equal", len(old) - after, len(old), len(new) - after, len(new)))
    return codes
