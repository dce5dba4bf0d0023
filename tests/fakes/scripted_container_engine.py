"""No engine, but a program that takes podman's and docker's commands and runs the command on the machine itself: for
what engines answer and how they fail. Podman itself is in ``real_podman`` (beside the keepers of this machine) and in
``tests/deploy/container_engine`` (in namespaces of its own, for images of servers).

Beside it are files: ``images`` has the names of images that are there, ``pullable`` those that a registry has, one a
line; ``calls`` gets the words of each call; ``failure`` is what ``run`` says instead, with exit code 125; ``dies``
makes the engine, and not the command, fail when it is removed; ``slow`` makes a pull last until it is removed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """#!/bin/sh
here=%(here)s
printf '%%s\\n' "$*" >> "$here/calls"
has() { grep -qxF "$2" "$here/$1" 2>/dev/null; }
case "$1 $2" in
"image exists") has images "$3"; exit $? ;;
"image inspect") if has images "$5"; then exit 0; fi; echo "Error: No such image: $5" >&2; exit 1 ;;
"info --format") echo '["name=seccomp"]'; exit 0 ;;
esac
case "$1" in
pull)
    while [ -e "$here/slow" ]; do sleep 0.02; done
    if has pullable "$3"; then echo "$3" >> "$here/images"; exit 0; fi
    echo "Error: initializing source docker://$3: manifest unknown" >&2; exit 125 ;;
rm) exit 0 ;;
run) ;;
*) echo "unknown command $1" >&2; exit 125 ;;
esac
if [ -e "$here/failure" ]; then cat "$here/failure" >&2; exit 125; fi
shift
if [ -e "$here/dies" ]; then
    %(run)s "$@" &
    while [ -e "$here/dies" ]; do sleep 0.02; done
    kill -9 $!
    echo "Error: the connection to the daemon was lost" >&2
    exit 125
fi
exec %(run)s "$@"
"""

#: The words are taken apart by Python, which then becomes the command.
_RUN = """
import os, sys
words, variables, place = sys.argv[1:], {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, 0
flags = {"--rm"}
while words[place].startswith("--"):
    if words[place] == "--env":
        name, _, value = words[place + 1].partition("=")
        variables[name] = value
    place += 1 if words[place] in flags else 2
image, script = words[place:]
os.execve("/bin/sh", ["/bin/sh", script], variables)
"""


class ScriptedContainerEngine:
    """Puts the program on PATH. Use it with pytest's ``monkeypatch``."""

    def __init__(self, folder: Path, monkeypatch: Any, name: str = "podman", images: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True)
        self.folder, self.name, self.program = folder, name, folder / name
        (folder / "run.py").write_text(_RUN)
        run = f'"{sys.executable}" -I -S "{folder}/run.py"'
        self.program.write_text(_PROGRAM % {"here": f"'{folder}'", "run": run})
        self.program.chmod(0o755)
        self.write("images", *images)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def calls(self, verb: str = "") -> list[str]:
        """The words of each call that begins with ``verb``."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(verb)]
