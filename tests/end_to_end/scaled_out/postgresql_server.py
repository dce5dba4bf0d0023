"""A real PostgreSQL server for tests: its own data folder, reached through a unix socket only.

    def test_something(postgresql):                       # started once for all tests of a process
        url = postgresql.new_database()                   # migrated and empty; for NNIWEB_DATABASE_URL
        postgresql.kill(); postgresql.start()             # the same data again

What is committed survives ``kill``; a power failure it would not (fsync is off, for speed).
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import psutil
import psycopg
import pytest

from tests.end_to_end import prepared_installation
from tests.end_to_end.scaled_out.unprivileged_folder import UnprivilegedFolder
from trainingservice.testing.processes import processes_of

NO_POSTGRESQL = "no PostgreSQL server: apt-get install postgresql"
ROOT = Path(__file__).resolve().parents[3]
#: Seconds for the server to come up, crash recovery included, on a busy machine.
PATIENCE = 60.0
#: Its only role, a superuser without a password.
ROLE = "nniweb"
#: Of the user ``admin`` in migrated databases.
PASSWORD = "of-the-tests"


def programs_folder() -> Path:
    """Where initdb and postgres are; the test is skipped where they are not installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    found = [path.parent for path in debian] or ([Path(on_path).resolve().parent] if on_path else [])
    if not found:
        pytest.skip(NO_POSTGRESQL)
    return found[-1]


class PostgresqlServer:
    """``start``, ``stop`` and ``kill`` as often as wanted; ``close`` removes everything."""

    def __init__(self, faketime: str = "", *, durable: bool = False, kept: Path | None = None) -> None:
        """``faketime``: the library of that name, for a server whose clock can be set; see ``set_clock``.

        ``durable``: commits are flushed to the disk, for what is measured; tests need it not.

        ``kept``: its folder, which stays after ``close``, and which may have the data of an earlier server.
        """
        self._options = [] if durable else ["-c", "fsync=off", "-c", "full_page_writes=off"]
        self._programs = programs_folder()
        self._folder = UnprivilegedFolder("pg", kept)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._environment = dict(os.environ)
        if faketime:
            self._environment |= {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": str(self._clock_file),
                                  "FAKETIME_CACHE_DURATION": "1", "DONT_FAKE_MONOTONIC": "1"}
            self.set_clock("+0")
        #: Of the user ``admin`` in every database of ``new_database``; "" before the first of them is made.
        self.token = ""
        if kept is not None:
            if not self._data.exists():
                self._initialize()
        elif prepared_installation.FOLDER in os.environ:
            self._copy_of_this_run(Path(os.environ[prepared_installation.FOLDER]) / "postgresql")
        else:
            self._initialize()

    def _initialize(self) -> None:
        subprocess.run([self._programs / "initdb", "-D", self._data, "-U", ROLE, "-A", "trust", "-E", "UTF8",
                        "--locale=C", "--no-sync"], check=True, cwd=self._folder.path, stdin=subprocess.DEVNULL,
                       capture_output=True, **self._folder.run_as)

    def _copy_of_this_run(self, shared: Path) -> None:
        """Begin with the data folder that the first server of a run of the tests has made, migration included: that
        takes ten seconds of a processor, and each process of the run has a server.
        """
        shared.mkdir(exist_ok=True)
        with open(shared / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / "token").exists():
                self._initialize()
                self.start()
                self._prepared()
                self.stop()
                _copy(self._data, shared / "data")
                (shared / "token").write_text(self.token)
                return
        _copy(shared / "data", self._data)
        self.token = (shared / "token").read_text()

    @property
    def _data(self) -> Path:
        return self._folder.path / "data"

    @property
    def _clock_file(self) -> Path:
        return self._folder.path / "clock"

    def set_clock(self, offset: str) -> None:
        """Put the clock of a server with faketime forward (``"+3600"``, seconds) or back, by the machine's."""
        ready = self._clock_file.with_suffix(".new")
        ready.write_text(offset)
        ready.replace(self._clock_file)

    @property
    def log_file(self) -> Path:
        return self._folder.path / "log"

    @property
    def socket_folder(self) -> str:
        """For clients that are not given a URL."""
        return str(self._folder.path)

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def start(self) -> PostgresqlServer:
        """Start it and wait until it answers. After ``kill`` its left-over processes are waited for."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if self._process is None or self._process.poll() is not None:
                # after a kill the first try may be refused: "pre-existing shared memory block is still in use"
                with open(self.log_file, "ab") as log:
                    self._process = subprocess.Popen(
                        [self._programs / "postgres", "-D", self._data, "-k", self._folder.path, "-h", "",
                         *self._options], cwd=self._folder.path,
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                        env=self._environment, **self._folder.run_as)
            try:
                self._connect("postgres").close()
                return self
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, f"PostgreSQL does not answer:\n{self.log_file.read_text()[-2000:]}"
                time.sleep(0.1)

    def stop(self) -> None:
        """A fast, clean shutdown: connections are ended."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """KILL its first process, and wait until the others have noticed: no connection answers any more."""
        self._end(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while left := processes_of([str(self._data)]):
            assert time.monotonic() < deadline, f"processes of the killed server go on: {left}"
            time.sleep(0.02)

    def freeze(self) -> None:
        """STOP all its processes, as when its virtual machine is frozen: connections stand, and nothing answers."""
        process = psutil.Process(self.pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()

    def thaw(self) -> None:
        process = psutil.Process(self.pid)
        for each in (*process.children(recursive=True), process):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)

    def close(self) -> None:
        self._end(signal.SIGINT)
        self._folder.remove()

    # --- databases -------------------------------------------------------------------------

    def url(self, database: str) -> str:
        return f"postgres://{ROLE}@{quote(str(self._folder.path), safe='')}/{database}"

    def new_database(self) -> str:
        """Make a database and return its URL: migrated, with the first user, whose REST token is ``token``."""
        name = f"nniweb{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self._prepared()}")
        return self.url(name)

    def blank_template(self) -> str:
        """Name of a database that is migrated and empty, for ``CREATE DATABASE ... TEMPLATE``."""
        self.execute("DROP DATABASE IF EXISTS blank")
        self.execute(f"CREATE DATABASE blank TEMPLATE {self._prepared()}")
        self.execute("TRUNCATE experiments_user CASCADE", "blank")
        return "blank"

    def _prepared(self) -> str:
        """Name of the database of which all others are copies: the migration runs once."""
        if not self.token:
            self.execute("DROP DATABASE IF EXISTS prepared")
            self.execute("CREATE DATABASE prepared")
            self.token = _prepare(self.url("prepared"))
        return "prepared"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """One statement, outside of a transaction."""
        with self._connect(database) as connection:
            connection.execute(statement.encode())

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(host=str(self._folder.path), user=ROLE, dbname=database, autocommit=True,
                               connect_timeout=5)


def _copy(data: Path, target: Path) -> None:
    """With owners and rights; whatever is left there of an attempt that failed goes."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", data, target], check=True, stdin=subprocess.DEVNULL)


_PREPARE = f"""
import django
django.setup()
from django.core.management import call_command
from nniweb.experiments.models import ApiToken
from nniweb.startup.first_start import first_user
call_command("migrate", verbosity=0)
user = first_user()
user.set_password({PASSWORD!r})
user.save()
print(ApiToken.make(user, "tests"))
"""


def _prepare(url: str) -> str:
    """Migrate a database and make its first user; returns a token."""
    with TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
        environment |= {"NNIWEB_DATA": folder, "NNIWEB_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "nniweb.settings"}
        done = subprocess.run([sys.executable, "-c", _PREPARE], cwd=ROOT, check=True, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return done.stdout.strip()


@pytest.fixture(scope="session")
def postgresql_of_this_run() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def postgresql(postgresql_of_this_run: PostgresqlServer) -> PostgresqlServer:
    """A server that answers; a test may kill it, the next one finds it started again."""
    return postgresql_of_this_run.start()
