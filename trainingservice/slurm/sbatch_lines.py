"""Which options of sbatch an experiment may add in lines of its own, read as sbatch reads ``#SBATCH`` lines.

sbatch takes several options in a line, quotes, beginnings of long names that are unambiguous (``--arr=1-9``), and short
options one after the other (``-Ha1-9``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from trainingservice.words.shown_value import shown

#: Most lines, and most characters of one.
MOST_LINES, LONGEST_LINE = 100, 1000
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_ONE_JOB = "each trial is one job with one task on each node, and the field nodes says how many"
_SERVERS = "the server sets it"
_ELSEWHERE = "the server would not find the job"
#: Long option -> why it is not for lines.
_TAKEN = {
    **dict.fromkeys(("array", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-node",
                     "ntasks-per-socket", "wrap", "test-only", "wait"), _ONE_JOB),
    **dict.fromkeys(("job-name", "output", "error", "input", "open-mode", "chdir", "comment", "parsable", "quiet",
                     "get-user-env"), _SERVERS),
    **dict.fromkeys(("requeue", "no-requeue"), "the field requeue says it"),
    **dict.fromkeys(("clusters", "cluster-constraint", "uid", "gid"), _ELSEWHERE),
    "dependency": "trials do not wait for each other's jobs",
    **dict.fromkeys(("help", "usage", "version"), "sbatch would submit nothing"),
}
#: Letter -> long option above.
_LETTERS = {"a": "array", "N": "nodes", "n": "ntasks", "W": "wait", "J": "job-name", "o": "output", "e": "error",
            "i": "input", "D": "chdir", "Q": "quiet", "M": "clusters", "d": "dependency", "h": "help", "u": "usage",
            "V": "version"}
#: Letters after which another option may follow in the same word: they take no value, or need none.
_WITHOUT_VALUE = frozenset("HhIkOQsuvVWX")


def checked_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines, where all may be added. Raises ValueError with a sentence about the first that may not."""
    if len(lines) > MOST_LINES:
        raise ValueError(f"must have at most {MOST_LINES} entries, not {len(lines)}")
    for line in lines:
        for option, name in _options(line):
            if why := _TAKEN.get(name):
                raise ValueError(f"{shown(option)} cannot be used here, because {why}. Remove it")
    return lines


def _options(line: str) -> Iterator[tuple[str, str]]:
    """Each option of a line: as it is written, and its long name where that is one of those that are taken."""
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{shown(line)} has more than {LONGEST_LINE} characters")
    if _UNPRINTABLE.search(line) or "\\" in line:
        raise ValueError(f"{shown(line)} has a backslash or a character that cannot be printed; write one option per "
                         "entry, such as --constraint=skylake")
    try:
        words = shlex.split(line)
    except ValueError:
        raise ValueError(f"{shown(line)} has a quote that is not closed") from None
    if not line.startswith("-") or not words:
        raise ValueError(f"{shown(line)} is not an option of sbatch; write one option per entry, such as "
                         "--constraint=skylake")
    for word in words:
        if word.startswith("--"):
            option = word.partition("=")[0]
            yield option, _long_name(option)
        elif word.startswith("-"):
            for letter in word[1:]:
                yield f"-{letter}", _LETTERS.get(letter, "")
                if letter not in _WITHOUT_VALUE:
                    break


def _long_name(option: str) -> str:
    """The taken option that a name is, or may be short for; "" for none."""
    given = option[2:]
    if given in _TAKEN:
        return given
    return next((name for name in _TAKEN if given and name.startswith(given)), "")
