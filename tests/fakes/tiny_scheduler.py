"""A scheduler of a few lines of shell: it queues scripts, runs them as processes, and forgets those that have ended.

    tiny submit NAME SCRIPT     tiny list ID ...     tiny cancel ID     tiny find NAME

What happens is told by files beside it: ``held`` keeps jobs waiting, ``lose-answers`` has a submission be taken and not
answered, ``refuse`` has it refused, ``away`` has every command fail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainingservice.command.config import CommandClusterSettings

SCRIPT = r"""#!/bin/sh
cd "$(dirname "$0")" || exit 1
[ ! -e away ] || { echo "cannot connect to the server" >&2; exit 111; }
command=$1; shift
case $command in
submit)
    [ ! -e refuse ] || { echo "there is no queue of that name" >&2; exit 1; }
    id=1
    while ! mkdir "jobs/$id" 2>/dev/null; do id=$((id + 1)); done
    echo "$1" >"jobs/$id/name"
    echo "$ARGUMENTS|$GPUS|$CPUS|$MEMORY_MB" >"jobs/$id/asked"
    setsid sh -c '
        while [ -e held ]; do sleep 0.05; done
        [ ! -e "jobs/$1/canceled" ] || exit 0
        echo running >"jobs/$1/state"
        exec sh "$2"' sh "$id" "$2" </dev/null >/dev/null 2>&1 &
    echo $! >"jobs/$id/pid"
    [ ! -e lose-answers ] || { sleep 0.2; kill -9 $$; }
    echo "Your job $id ($1) has been submitted" ;;
list)
    for id in "$@"; do
        if kill -0 "$(cat "jobs/$id/pid" 2>/dev/null)" 2>/dev/null; then
            echo "$id $(cat "jobs/$id/state" 2>/dev/null || echo waiting for a node)"
        fi
    done
    exit 0 ;;
cancel)
    touch "jobs/$1/canceled"
    kill -TERM "-$(cat "jobs/$1/pid")" ;;
find)
    for folder in jobs/*; do
        [ "$(cat "$folder/name" 2>/dev/null)" = "$1" ] && basename "$folder"
    done
    exit 0 ;;
esac
"""


class TinyScheduler:
    """In a folder of its own; ``shared`` is what all machines have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "scheduler"
        self.shared = folder / "shared"
        self.jobs = self.folder / "jobs"
        self.jobs.mkdir(parents=True)
        self.shared.mkdir()
        self.program = self.folder / "tiny"
        self.program.write_text(SCRIPT)
        self.program.chmod(0o755)

    def settings(self, **more: Any) -> CommandClusterSettings:
        """Settings that work; ``more`` changes some (None takes one out)."""
        tiny = f"'{self.program}'"
        fields: dict[str, Any] = {
            "submit_command": f'{tiny} submit "$JOB_NAME" "$JOB_SCRIPT"', "status_command": f"{tiny} list $JOB_IDS",
            "cancel_command": f'{tiny} cancel "$JOB_ID"', "find_command": f'{tiny} find "$JOB_NAME"',
            "waiting_states": ("waiting",), "running_states": ("running",), "working_folder": str(self.shared), **more}
        return CommandClusterSettings(**{name: value for name, value in fields.items() if value is not None})

    def set(self, what: str, on: bool = True) -> None:
        """``held``, ``lose-answers``, ``refuse`` or ``away``."""
        path = self.folder / what
        if on:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Names of all jobs that were ever taken."""
        return [path.read_text().strip() for path in sorted(self.jobs.glob("*/name"))]

    def pid(self, name: str) -> int:
        """The process of the job of this name."""
        [folder] = [path.parent for path in self.jobs.glob("*/name") if path.read_text().strip() == name]
        return int((folder / "pid").read_text())
