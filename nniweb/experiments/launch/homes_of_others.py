"""Home folders of people who use the server's machine, besides that of the user the server runs as."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from nniweb.experiments.config.code_roots import Closed

#: Users with smaller numbers belong to programs, and their homes are such as /usr/sbin; root is a person.
FIRST_PERSON = 1000


def homes_of_others(path: Path, but_for: frozenset[str]) -> list[Closed]:
    """The homes that may matter to ``path`` (resolved), less those of the users ``but_for``.

    Users of a directory service that does not list them are found by whose folders ``path`` lies in.
    """
    found = {}
    for user in (*pwd.getpwall(), *_owners(path)):
        home = Path(user.pw_dir)
        if (user.pw_uid >= FIRST_PERSON or user.pw_uid == 0) and user.pw_uid != os.geteuid() \
                and user.pw_name not in but_for and home.is_absolute() and len(home.parts) > 1 and home.is_dir():
            found[home.resolve()] = Closed(home.resolve(), f"the home folder of the machine's user {user.pw_name}")
    own = Path.home().resolve()
    return [closed for home, closed in found.items() if home != own]


def _owners(path: Path) -> Iterator[pwd.struct_passwd]:
    for folder in (path, *path.parents):
        try:
            yield pwd.getpwuid(folder.stat().st_uid)
        except (OSError, KeyError):
            continue
