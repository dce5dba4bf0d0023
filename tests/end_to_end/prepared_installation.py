"""The database of an installation that was started once, made once for a whole run of the tests.

Making it takes a server three seconds of a processor, which each of a hundred tests would pay again. That an empty
folder becomes an installation has tests of its own; their servers are made with ``starts_empty``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
#: The folder that the processes of one run of the tests share; not set outside of one, as in benchmarks.
FOLDER = "NNIWEB_TEST_PREPARED"
DATABASE, TOKEN = "nniweb.sqlite3", "token"

#: In the same folder: a database that is migrated and empty, as Django makes those of tests. Whoever needs one first
#: makes it, under ``lock``, for the databases of tests (``tests.nniweb.migrated_once``) and for the installation here.
MIGRATED = "migrated.sqlite3"

#: The first user, as the first start makes it, and a token of theirs; the migrations before, where they have not run.
MAKE_USER = """
from pathlib import Path
from django.core.management import call_command
from django.db import connection
from nniweb.experiments.models import ApiToken
from nniweb.experiments.sql.schema_version import note_this_version
from nniweb.startup.first_start import first_user
migrated = Path({migrated!r})
if not migrated.exists():
    call_command("migrate", verbosity=0, run_syncdb=True)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(migrated)])
note_this_version()
print(ApiToken.make(first_user(), ""))
"""


def begin() -> None:
    """For the process that begins a run of the tests."""
    os.environ[FOLDER] = tempfile.mkdtemp(prefix="nniweb-prepared-")


def end() -> None:
    """For the same process."""
    shutil.rmtree(os.environ.pop(FOLDER, ""), ignore_errors=True)


def put_into(data_folder: Path) -> str:
    """Make an empty or missing data folder one that was used before; returns a REST token of its administrator.

    Returns "" where there is none for it: outside of a run of the tests, or the folder has a database.
    """
    if FOLDER not in os.environ or (data_folder / DATABASE).exists():
        return ""
    prepared = Path(os.environ[FOLDER])
    with alone(prepared):
        if not (prepared / TOKEN).exists():
            _make(prepared)
    data_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copy(prepared / "data" / DATABASE, data_folder / DATABASE)
    return (prepared / TOKEN).read_text()


@contextlib.contextmanager
def alone(prepared: Path) -> Iterator[None]:
    """The tests' processes come here at the same time."""
    with open(prepared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(prepared: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    data, migrated = prepared / "data", prepared / MIGRATED
    data.mkdir(mode=0o700, exist_ok=True)
    if migrated.exists():
        shutil.copy(migrated, data / DATABASE)
    done = subprocess.run([sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "-v0", "-c",
                           MAKE_USER.format(migrated=str(migrated))], cwd=ROOT, check=True, text=True,
                          env={**own, "NNIWEB_DATA": str(data)}, stdout=subprocess.PIPE)
    assert not (data / f"{DATABASE}-wal").exists(), "the database is still open"
    (prepared / TOKEN).write_text(done.stdout.split()[-1])
