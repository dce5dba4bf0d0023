"""What is said where the database is newer than this program."""

from django.db import DatabaseError

from nniweb.experiments.sql.schema_version import last_version, why_too_new, wording
from nniweb.storage.own_files import COMMAND
from nniweb.upgrades import backup_before


def too_new() -> str:
    """Why this program must not use the database, and what to do, in sentences; "" where it may. Raises DatabaseError.
    """
    why = why_too_new()
    if not why:
        return ""
    made = backup_before.newest()
    backup = str(made) if made else "FILE"
    return (f"{why} Install {wording(last_version())} again. Or return to the state before the upgrade, which discards "
            f"everything that happened since: stop all servers and workers, then run {COMMAND} restore {backup} "
            "--force.")


def too_new_or_unknown() -> str:
    """The same for processes that also start while the database is away: "" then, which they notice by themselves.
    """
    try:
        return too_new()
    except (DatabaseError, RuntimeError):  # RuntimeError: where none may be asked, while tests are collected say
        return ""
