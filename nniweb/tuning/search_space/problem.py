"""What is wrong with something a person wrote: where, and a sentence about it."""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

#: Faults that are told of one thing. Further ones are not looked for: each has a path of its own.
MOST_PROBLEMS = 1000


@dataclass(frozen=True)
class Problem:
    """``path`` says where, e.g. ``lr._value[1]`` (empty: the whole); ``message`` is a sentence for its author."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class InvalidInput(ValueError):
    """Something a person wrote cannot be used. ``problems`` lists everything found, not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean "uniform"?`` with a leading space, or nothing where no known word is near."""
    spellings = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), spellings, n=1, cutoff=0.6)
    return f' Did you mean "{spellings[near[0]]}"?' if near else ""
