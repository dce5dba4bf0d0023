"""Which folders of the server a person may name in what they launch, and which nobody may."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from django.conf import settings

from nniweb.experiments.config.code_roots import ANYWHERE, Closed, CodeRoots
from nniweb.experiments.launch.homes_of_others import homes_of_others
from nniweb.experiments.models import User
from nniweb.storage.backup_places import known_backups


def nameable_folders(user: User, brought: Path | None = None) -> CodeRoots:
    """NNIWEB_CODE_ROOTS for those who have the right, none for others; nothing that holds keys or is other people's.

    Where the person may run trials as a user of this machine, that user's home is not other people's. ``brought``:
    resolved; a folder that was made for this request.
    """
    return CodeRoots(settings.CODE_ROOTS if user.may_name_folders else (), own_places(), Path.home().resolve(),
                     hidden_files=user.is_admin, brought=brought,
                     homes_near=partial(homes_of_others, but_for=frozenset(user.own_local_users)))


def nameable_at_a_terminal() -> CodeRoots:
    """For whoever starts a command here: what the server's user can read, but for what is the server's own."""
    return CodeRoots(ANYWHERE, own_places())


def own_places() -> tuple[Closed, ...]:
    """What the server keeps for itself on this machine, wherever it is: data folder, keys, database, backups."""
    closed = [Closed(Path(settings.DATA_FOLDER).resolve(), "the data folder of the server, which contains its keys")]
    closed += [Closed(path.resolve(), "a file with a secret of the server") for path in settings.SECRET_FILES]
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        file = Path(database["NAME"]).resolve()
        closed += [Closed(file.with_name(file.name + end), "the server's database") for end in ("", "-wal", "-journal")]
    closed += [Closed(path.resolve(), "a backup of the server") for path in known_backups()]
    return tuple(closed)
