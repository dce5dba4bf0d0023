"""What depends most on the database runs on PostgreSQL with every run; "make test-postgresql" all else."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import ConnectionPool

from nniweb.database.silent_postgresql import AnsweredConnection
from tests.end_to_end.running_server import ROOT
from tests.end_to_end.scaled_out.postgresql_server import PostgresqlServer

#: Leases, the storing of reports, wishes of people, what pages are sent.
REPRESENTATIVE = ["tests/nniweb/worker/cluster_host/test_lease.py", "tests/nniweb/experiments/ingest/test_ingest.py",
                  "tests/nniweb/experiments/ingest/test_two_writers.py",
                  "tests/nniweb/experiments/actions/test_intents.py", "tests/nniweb/live/test_live_frames.py"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_leases_reports_wishes_and_frames_are_the_same_on_postgresql(postgresql: PostgresqlServer) -> None:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("NNIWEB_", "DJANGO_", "PYTEST_"))}
    environment |= {"NNIWEB_TEST_DATABASE_URL": postgresql.url("postgres"),
                    "NNIWEB_TEST_DATABASE_TEMPLATE": postgresql.blank_template()}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", *REPRESENTATIVE], cwd=ROOT,
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_a_connection_to_a_server_that_only_reads_ends_and_does_not_come_again_from_the_pool(
        postgresql: PostgresqlServer) -> None:
    with ConnectionPool(postgresql.url("postgres"), connection_class=AnsweredConnection, min_size=1,
                        max_size=1) as pool:
        with pool.connection() as made_before_a_fail_over:
            made_before_a_fail_over.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        with pool.connection() as same:
            assert same is made_before_a_fail_over
            with pytest.raises(ReadOnlySqlTransaction):
                same.execute("CREATE TEMPORARY TABLE written ()")
        with pool.connection() as another:
            another.execute("CREATE TEMPORARY TABLE written ()")


def test_a_kept_folder_has_the_data_of_the_server_that_was_closed() -> None:
    with TemporaryDirectory(prefix="nniweb-kept-", dir="/tmp") as short:
        Path(short).chmod(0o755)  # the server runs as another user where this is root
        for statement in ("CREATE TABLE kept (n integer)", "INSERT INTO kept VALUES (1)"):
            with closing(PostgresqlServer(kept=Path(short) / "pg")) as server:
                server.start().execute(statement)
        assert (Path(short) / "pg" / "data").is_dir()
