"""Commands that need a database which the server has made."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.db import DatabaseError

from nniweb.experiments.sql.schema_version import missing_migrations
from nniweb.storage.own_files import START
from nniweb.upgrades.refusal import too_new


def require_own_database(options: Mapping[str, Any], *more: str) -> None:
    """Raise CommandError where an option was given that is for a server elsewhere, which needs none of this."""
    given = [name for name in ("server", "token_file", "ca_file", *more) if options.get(name)]
    if given:
        raise CommandError(f"--{given[0].replace('_', '-')} is only for a server on another machine. Give --server as "
                           "well (not abbreviated), or set NNIWEB_SERVER.")


def require_served_before() -> None:
    """Raise CommandError, with what to do, where the database is not there, older or newer than this program."""
    try:
        why_not, missing = too_new(), missing_migrations()
    except DatabaseError as error:
        raise CommandError(f"The database cannot be used: {error}") from None
    if why_not:
        raise CommandError(why_not)
    if missing:
        raise CommandError(
            f"The data folder {settings.DATA_FOLDER} contains no database of this version. Start the server once "
            f"({START}), or set NNIWEB_DATA to the folder that it uses.")
