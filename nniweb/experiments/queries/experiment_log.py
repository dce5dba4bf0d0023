"""Reading the log of an experiment: the last lines, those before and those after a line, all of them as text."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Max, Min, QuerySet

from nniweb.experiments.models import Experiment, LogLine

#: Name of a level -> its number, the least first.
LEVELS = {name: logging.getLevelName(name) for name in ("DEBUG", "INFO", "WARNING", "ERROR")}
#: Lines read in one go for a text.
CHUNK = 2000


@dataclass(frozen=True)
class LogPart:
    """Lines in their order, and where they stand in the whole."""

    lines: list[LogLine]
    #: Number of the first line that is kept, and of the last there is; 0 for none. Those before the first were removed.
    first: int
    last: int
    #: Whether there are lines that fit before the first of these.
    has_earlier: bool
    #: The experiment's revision when this was read, or a little earlier.
    revision: int


def fitting(experiment: Experiment, *, level: str = "DEBUG", sources: Iterable[str] = (), text: str = ""
            ) -> QuerySet[LogLine]:
    """Lines of at least this level, of these sources (none: of all) that hold this text, in their order."""
    lines = LogLine.objects.filter(experiment=experiment, level__gte=LEVELS[level])
    if wanted := list(sources):
        lines = lines.filter(source__in=wanted)
    if text:
        lines = lines.filter(message__icontains=text)
    return lines.order_by("number")


def part_of(experiment: Experiment, lines: QuerySet[LogLine], *, most: int, before: int | None = None,
            after: int | None = None) -> LogPart:
    """Up to ``most`` of ``lines``: the first ones after a number, else the last ones (before a number)."""
    ends = LogLine.objects.filter(experiment=experiment).aggregate(first=Min("number"), last=Max("number"))
    if before is not None:
        lines = lines.filter(number__lt=before)
    if after is not None:
        found = list(lines.filter(number__gt=after)[:most])
        has_earlier = True
    else:
        newest = list(lines.order_by("-number")[:most + 1])
        has_earlier = len(newest) > most
        found = newest[:most][::-1]
    return LogPart(found, ends["first"] or 0, ends["last"] or 0, has_earlier, experiment.revision)


def as_text(lines: QuerySet[LogLine]) -> Iterator[str]:
    """Lines as a file has them: time (UTC), level, source, message."""
    for line in lines.iterator(CHUNK):
        yield (f"{line.at:%Y-%m-%d %H:%M:%S.%f} {logging.getLevelName(line.level)} {line.source}"
               f"{f' [trial {line.trial}]' if line.trial else ''}: {line.message}\n")
