"""Variants of the code on pages: what they change, line by line, as much as a page can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nniweb.experiments.models import Trial
from nniweb.experiments.variants.shown_diff import ChangedFileShown, DiffLine, between, shown_files
from nniweb.experiments.variants.stored_variants import VariantGone, content_of
from trainingservice.variants.code_variant import VariantContent

#: Lines of one page's diffs, and characters of one line.
MOST_LINES, LONGEST_LINE = 1000, 500
#: Comparisons with the first of the compared trials.
MOST_COMPARED = 4


@dataclass(frozen=True)
class FileDiff:
    """``lines``: as many as the page shows; ``left_out``: how many more there are."""

    path: str
    change: str
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    left_out: int


@dataclass(frozen=True)
class VariantDiff:
    """``problem``: why there is nothing to be shown, a sentence; "" otherwise. ``trial``: what it is compared with."""

    files: tuple[FileDiff, ...] = ()
    problem: str = ""
    trial: Trial | None = None


def diff_of(trial: Trial) -> VariantDiff | None:
    """What the trial's variant changes in the code; None without one."""
    if trial.variant is None:
        return None
    try:
        return VariantDiff(_bounded(shown_files(content_of(trial.variant).files), MOST_LINES))
    except VariantGone as gone:
        return VariantDiff(problem=str(gone))


def diffs_between(trials: Sequence[Trial]) -> list[VariantDiff]:
    """From the code of the first trial to that of each of the others that has another one."""
    others = [trial for trial in trials[1:] if trial.variant_id != trials[0].variant_id][:MOST_COMPARED]
    return [_diff_between(trials[0], other, MOST_LINES // len(others)) for other in others]


def _diff_between(first: Trial, second: Trial, most: int) -> VariantDiff:
    try:
        return VariantDiff(_bounded(shown_files(between(_content(first), _content(second))), most), trial=second)
    except VariantGone as gone:
        return VariantDiff(problem=str(gone), trial=second)


def _content(trial: Trial) -> VariantContent | None:
    return None if trial.variant is None else content_of(trial.variant)


def _bounded(files: Sequence[ChangedFileShown], most: int) -> tuple[FileDiff, ...]:
    found = []
    for file in files:
        lines = tuple(DiffLine(line.kind, _short(line.text)) for line in file.lines[:most])
        most -= len(lines)
        found.append(FileDiff(file.file.path, file.change, file.added, file.removed, lines,
                              len(file.lines) - len(lines)))
    return tuple(found)


def _short(text: str) -> str:
    text = text.rstrip("\r")
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"
