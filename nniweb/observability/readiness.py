"""Whether this process can do its work, check by check, in sentences for whoever looks after it.

Anybody may ask, so a sentence names no host, no user and no path; those are in the log.
"""

import logging
from dataclasses import asdict, dataclass
from typing import Any

from django.db import DatabaseError, connection

from nniweb.experiments.clusters.worker_presence import HOW_TO_START, worker_is_alive
from nniweb.experiments.models import Experiment
from nniweb.experiments.sql import database_health
from nniweb.experiments.sql.schema_version import missing_migrations
from nniweb.storage.elsewhere import elsewhere
from nniweb.storage.own_files import COMMAND
from trainingservice.lasting_thread import parts_in_trouble

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """``message`` says what is wrong and what to do, "" where all is well."""

    name: str
    ok: bool
    message: str = ""


#: Whether the database was once seen to be as new as this program; it does not grow older.
_is_migrated = False


def readiness() -> tuple[bool, dict[str, Any]]:
    """Whether requests should come here, and the document that says why not. Blocking; gives its connection back."""
    try:
        checks = _checks()
        no_worker = missing_worker() if all(check.ok for check in checks) else ""
    except DatabaseError as error:
        logger.warning("not ready; the database's error: %s", error)
        checks, no_worker = [Check("database", False, "The database cannot be reached. The log contains its error. "
                                                      "Running trials continue, and their reports wait on the trial "
                                                      "machines.")], ""
    finally:
        connection.close()
    warnings = {"refused": "The database does not accept writes at the moment. Reports wait on the trial machines, and "
                           "no new trial is started. Work continues automatically when it accepts writes again. Every "
                           "page shows details.",
                "little room": "The data folder's disk is nearly full. Free disk space. Every page shows details."}
    if (files := elsewhere()) is not None:
        files.look()
    found = [warnings.get(database_health.kind_of_trouble(), ""), no_worker]
    for part in parts_in_trouble():
        if part.is_vital:
            checks.append(Check(part.name, False, part.trouble))
        else:
            found.append(part.trouble)
    ready = all(check.ok for check in checks)
    return ready, {"ready": ready, "checks": [asdict(check) for check in checks],
                   "warnings": [warning for warning in found if warning]}


def _checks() -> list[Check]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return [Check("database", True), _migrations()]


def _migrations() -> Check:
    global _is_migrated
    if not _is_migrated:
        missing = missing_migrations()
        if missing:
            return Check("migrations", False, f"The database is older than this program: {missing} changes are "
                                              f"missing. Run {COMMAND} migrate.")
        _is_migrated = True
    return Check("migrations", True)


def missing_worker() -> str:
    """That a worker is missed, "" where one lives or no experiment has anything to do.

    A warning and no more: pages, REST and reports need none, and a proxy that turned everybody away could not even
    show what is wrong.
    """
    if worker_is_alive() or not Experiment.objects.unfinished().filter(
            deleted_at=None, cluster__enabled=True).exists():
        return ""
    return f"Experiments have not ended, but no worker is alive. {HOW_TO_START}"
