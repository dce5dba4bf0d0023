"""How a job's own output tells how its trial ended: for platforms that show what a job printed, and share no folder."""

from __future__ import annotations

from typing import Any

from trainingservice.rest.told_json import read_json

#: Begins the line.
END_MARK = "@nniweb-end "


def keep_and_tell(keeper: str, end_file: str) -> str:
    """Lines of sh that run a keeper, pass TERM on to it, and print how the trial ended; they exit as the keeper did.

    The trap is set first. After a TERM that came before, no keeper is started. One that comes while it is started is
    passed on a second later: a process that was forked just now still has this shell's trap, and would lose it.

    ``keeper``: the command that runs it. ``end_file``: where it leaves the end (EXIT_FILE in its folder), as a word
    of sh.
    """
    return f"""\
keeper=
ending=
trap 'ending=yes; [ -z "$keeper" ] || kill -TERM $keeper 2>/dev/null' TERM INT
[ -z "$ending" ] || exit 143
{keeper} &
keeper=$!
[ -z "$ending" ] || {{ sleep 1; kill -TERM $keeper 2>/dev/null; }}
wait $keeper
code=$?
while kill -0 $keeper 2>/dev/null; do wait $keeper; code=$?; done
[ ! -f {end_file} ] || echo "{END_MARK}$(cat {end_file})"
exit $code
"""


def told_end(output: str) -> dict[str, Any] | None:
    """The end that the last such line tells of, for ``observed_exit``; None where there is none."""
    for line in reversed(output.splitlines()):
        if line.startswith(END_MARK):
            try:
                document = read_json(line.removeprefix(END_MARK))
            except ValueError:
                return None
            return document if isinstance(document, dict) else None
    return None
