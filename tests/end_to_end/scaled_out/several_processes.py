"""An installation of several processes: webs (daphne) and workers (``manage.py worker``) on PostgreSQL and Redis.

    def test_something(installation):
        web, worker = installation.web("web1").start(), installation.worker("worker1").start()
        experiment = web.launch({...}, folder)
        installation.rows("SELECT lease_holder FROM experiments_cluster")

All share one data folder, as on one machine or on a shared volume. Each process is a ``RunningServer``: REST, waiting
and the log are the same there.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import daphne
import psycopg
import pytest
import requests

from nniweb.experiments.clusters.lease import LEASE_SECONDS
from tests.end_to_end.running_server import SCRIPTED_PLATFORMS, RunningServer, free_port
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer
from tests.end_to_end.scaled_out.redis_server import RedisServer
from tests.fakes.ssh_machine import needs_root
from trainingservice.testing.processes import end_processes, processes_of

PLATFORMS = (f"{SCRIPTED_PLATFORMS},scripted_anywhere="
             "tests.end_to_end.scaled_out.scripted_anywhere:ScriptedAnywhereTrainingService")

#: What ``python -m daphne`` runs; as a file it can be forked (tests/forking).
DAPHNE = str(Path(daphne.__file__).with_name("__main__.py"))

#: Seconds, beyond those that a lease lasts, until the clusters of a killed worker are taken: for one look at them (they
#: come each second) and a machine that is busy with other tests.
TAKE_OVER_MARGIN = 15.0

#: A trigger on each table that writes down whose connection changed a row, in the same transaction.
_NOTE_WRITERS = """
CREATE TABLE noted_writes (writer text, changed text);
CREATE FUNCTION note_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO noted_writes VALUES (current_setting('application_name'), TG_TABLE_NAME); RETURN NULL; END $$;
DO $$ DECLARE t text; BEGIN
  FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'experiments%' LOOP
    EXECUTE format('CREATE TRIGGER note_write AFTER INSERT OR UPDATE OR DELETE ON %I'
                   ' FOR EACH ROW EXECUTE FUNCTION note_write()', t);
  END LOOP; END $$;
"""


class OneOfSeveral(RunningServer):
    """A process of an installation. ``name`` tells its log apart from the others'."""

    def __init__(self, name: str, data_folder: Path, env: Mapping[str, str], token: str) -> None:
        super().__init__(data_folder, {**env, "PGAPPNAME": name})  # by which PostgreSQL tells them apart
        self.name = name
        self.token = token
        self.log_file = data_folder.with_name(f"{name}.log")

    def stop(self) -> int:
        """TERM, as systemd and containers send it, and wait for the end. Returns the exit status."""
        return self._end(signal.SIGTERM)

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def end(self) -> None:
        """End this process alone, also one that sleeps."""
        if self.is_alive:
            self.send_signal(signal.SIGCONT)
            self.kill()


class WebProcess(OneOfSeveral):
    """``daphne nniweb.asgi:application``."""

    def command(self, program: Sequence[str]) -> list[str]:
        return [sys.executable, DAPHNE, "-b", "127.0.0.1", "-p", str(self.port), "nniweb.asgi:application"]

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/sign-in/", timeout=90).ok
        except requests.RequestException:
            return False


class WorkerProcess(OneOfSeveral):
    """``manage.py worker``; with ``host``, in a UTS namespace of its own with that host name (root only)."""

    def __init__(self, name: str, data_folder: Path, env: Mapping[str, str], token: str, host: str = "") -> None:
        super().__init__(name, data_folder, env, token)
        self._host = host
        self._log_before = ""

    def start(self, *options: str, **more: Any) -> WorkerProcess:
        self._log_before = self.log()
        return super().start(*options, **more)

    def command(self, program: Sequence[str]) -> list[str]:
        command = [sys.executable, *program, "worker"]
        if self._host:
            needs_root()
            return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self._host, *command]
        return command

    def answers(self) -> bool:
        return "Worker started" in self.log()[len(self._log_before):]

    def pause(self) -> None:
        """STOP: as when its virtual machine is frozen."""
        self.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.send_signal(signal.SIGCONT)


class Installation:
    """Makes processes that are not started yet; ``close`` ends all of them and what runs for them."""

    def __init__(self, folder: Path, database_url: str, token: str, redis_url: str = "",
                 env: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.data_folder = folder / "data"
        self.database_url = database_url
        #: The address that keepers and people are given; the first web listens there.
        self.public_port = free_port()
        self.env = {"NNIWEB_DATABASE_URL": database_url, "NNIWEB_EXTRA_PLATFORMS": PLATFORMS,
                    "NNIWEB_PUBLIC_URL": f"http://127.0.0.1:{self.public_port}",
                    **({"NNIWEB_REDIS_URL": redis_url} if redis_url else {}), **(env or {})}
        self._token = token
        self._processes: list[OneOfSeveral] = []

    def web(self, name: str, **env: str) -> WebProcess:
        """The first one listens where ``NNIWEB_PUBLIC_URL`` points, the others at ports of their own."""
        web = WebProcess(name, self.data_folder, {**self.env, **env}, self._token)
        if not any(isinstance(process, WebProcess) for process in self._processes):
            web.port = self.public_port
        self._processes.append(web)
        return web

    def worker(self, name: str, host: str = "", **env: str) -> WorkerProcess:
        worker = WorkerProcess(name, self.data_folder, {**self.env, **env}, self._token, host)
        self._processes.append(worker)
        return worker

    # --- the database ----------------------------------------------------------------------

    @cached_property
    def _database(self) -> str:
        return "postgresql" + self.database_url.removeprefix("postgres")

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds, past the server: what is really stored."""
        with psycopg.connect(self._database, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def holders(self) -> dict[str, str]:
        """Name of each cluster that is driven -> id of the worker."""
        return dict(self.rows("SELECT name, lease_holder FROM experiments_cluster WHERE lease_holder <> ''"))

    def worker_id(self, worker: WorkerProcess) -> str:
        """The id under which this process is registered, which is soon after it said that it started."""
        [(found,)] = worker.wait_until(
            lambda: self.rows("SELECT id FROM experiments_worker WHERE pid = %s", worker.pid), what="it is registered")
        return str(found)

    def wait_until_taken_over(self, heir: WorkerProcess) -> datetime:
        """A worker was killed: wait until this one holds every cluster that anybody held; returns when it had them.

        Fails where that takes longer than a lease lasts (and TAKE_OVER_MARGIN). Times are those of the database.
        """
        wanted = self.worker_id(heir)
        began = self._now()

        def has_all() -> datetime | None:
            [(now, all_its)] = self.rows("SELECT clock_timestamp(), bool_and(lease_holder = %s) "
                                         "FROM experiments_cluster WHERE lease_epoch > 0", wanted)
            return now if all_its else None

        taken = heir.wait_until(has_all, what=f"{heir.name} has taken over")
        took = (taken - began).total_seconds()
        assert took <= LEASE_SECONDS + TAKE_OVER_MARGIN, f"{heir.name} took over after {took:.1f} s"
        return taken

    def _now(self) -> datetime:
        [(now,)] = self.rows("SELECT clock_timestamp()")
        return now

    def note_writers(self) -> None:
        """From now on PostgreSQL notes who changes which rows; see ``writes_of``."""
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute(_NOTE_WRITERS)

    def writes_of(self, process: OneOfSeveral) -> Counter[str]:
        """How many rows of which tables this process has changed, committed ones only."""
        return Counter(dict(self.rows("SELECT changed, count(*) FROM noted_writes WHERE writer = %s GROUP BY changed",
                                      process.name)))

    def close(self) -> None:
        for process in self._processes:
            process.end()
        deadline = time.monotonic() + 30
        while left := processes_of([str(self.folder)]):  # keepers and trials, of a test that failed
            end_processes(left)
            assert time.monotonic() < deadline, f"these processes could not be ended: {left}"
            time.sleep(0.05)

    def logs(self) -> str:
        """The ends of all logs, for the message of a test that failed."""
        return "\n".join(f"== {process.name}\n{process.log_tail()}" for process in self._processes)


@pytest.fixture
def installation(tmp_path: Path, postgresql: PostgresqlServer, redis: RedisServer) -> Iterator[Installation]:
    """An installation on a new database, with Redis; nothing is started yet."""
    made = Installation(tmp_path, postgresql.new_database(), postgresql.token, redis.url)
    yield made
    made.close()


def is_traceback_free(log: str) -> bool:
    """Whether nothing in a log is a Python traceback."""
    return "Traceback (most recent call last)" not in log
