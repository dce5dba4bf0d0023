"""``manage.py doctor`` finds what is wrong with an installation, and names the remedy."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.utils import timezone

from nniweb.doctor import files
from nniweb.doctor.examination import examine
from nniweb.doctor.findings import Finding, Verdict, exit_status
from nniweb.experiments.models import Cluster, ClusterMetadata, CodeArchive, Machine, TrialFile, Worker
from nniweb.experiments.secrets.sealing import seal
from nniweb.storage import data_folder
from nniweb.storage.data_folder import ServerLock
from trainingservice.keeper.keeper_bundle import build_keeper


@dataclass
class Installation:
    """One that is well: a data folder of its own, any free port (0), the tests' database."""

    settings: Any
    folder: Path
    make_experiment: Callable[..., Any]
    make_attempt: Callable[..., Any]
    monkeypatch: pytest.MonkeyPatch
    #: A small one; the tests' own is locked by the test's transaction.
    database: Path
    #: Closed after the test.
    opened: ExitStack


@pytest.fixture
def installation(settings: Any, tmp_path: Path, make_experiment: Callable[..., Any],
                 make_attempt: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    folder = data_folder.prepare(tmp_path / "data")
    data_folder.installation_id(folder)
    data_folder.secret_key(folder)
    data_folder.seal_keys(folder)
    libraries = tmp_path / "libraries"
    for name in ("echarts/echarts.min.js", "echarts/echarts.common.min.js", "swagger-ui/swagger-ui-bundle.js",
                 "swagger-ui/swagger-ui.css"):
        (libraries / name).parent.mkdir(parents=True, exist_ok=True)
        (libraries / name).touch()
    settings.DATA_FOLDER, settings.SEAL_KEYS, settings.LOW_SPACE_BYTES = folder, [], 0
    settings.HOST, settings.PORT, settings.STATICFILES_DIRS = "127.0.0.1", 0, [str(libraries)]
    # another dictionary, as the open connection goes by the old one
    chosen = {**settings.DATABASES["default"], "ENGINE": "nniweb.database.sqlite", "NAME": small_database(folder)}
    monkeypatch.setitem(settings.DATABASES, "default", chosen)
    with ExitStack() as opened:
        yield Installation(settings, folder, make_experiment, make_attempt, monkeypatch, chosen["NAME"], opened)


def refusing_port(here: Installation) -> int:
    """A port on which nobody listens, nor can begin to before the test ends."""
    bound = here.opened.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    return int(bound.getsockname()[1])


def faults() -> list[Finding]:
    return [found for found in examine() if found.verdict in (Verdict.WRONG, Verdict.WARNING)]


# --- the faults: each is planted for real, and returns what its finding is about ---------------

def port_is_taken(here: Installation) -> None:
    other = here.opened.enter_context(socket.create_server(("127.0.0.1", 0)))
    here.settings.PORT = other.getsockname()[1]


def server_hangs(here: Installation) -> None:
    lock = ServerLock(here.folder)
    lock.acquire()
    here.opened.callback(lock.release)
    lock.write_address([f"http://127.0.0.1:{refusing_port(here)}"])


def folder_is_open_to_all(here: Installation) -> None:
    here.folder.chmod(0o755)


def key_is_open_to_all(here: Installation) -> None:
    (here.folder / "keys" / "seal_keys").chmod(0o644)


def key_is_lost(here: Installation) -> None:
    cluster = Cluster.objects.create(name="farm", platform="remote")
    ClusterMetadata.objects.create(cluster=cluster, key="password", sealed_value=seal("open sesame"))
    data_folder.write_seal_keys(here.folder, [Fernet.generate_key().decode()])


def disk_is_nearly_full(here: Installation) -> None:
    here.settings.LOW_SPACE_BYTES = shutil.disk_usage(here.folder).total + 1


def database_is_damaged(here: Installation) -> None:
    path = here.database
    with open(path, "r+b") as file:  # the second page and what follows: a disk that lost some blocks
        file.seek(4096)
        file.write(os.urandom(3 * 4096))


def database_is_missing(here: Installation) -> None:
    here.database.unlink()


def database_is_locked(here: Installation) -> None:
    here.monkeypatch.setattr("nniweb.doctor.database.LOCK_SECONDS", 0.05)
    other = here.opened.enter_context(closing(sqlite3.connect(here.database, isolation_level=None)))
    other.execute("BEGIN IMMEDIATE")


def database_is_old(here: Installation) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE id = "
                       "(SELECT max(id) FROM django_migrations WHERE app = 'experiments' "
                       "AND name NOT LIKE '%squashed%')")


def database_is_newer(here: Installation) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)",
                       ["experiments", "9999_of_next_year", timezone.now()])


def no_worker_is_alive(here: Installation) -> None:
    here.make_experiment()


def cluster_needs_a_person(here: Installation) -> None:
    Cluster.objects.create(name="farm", platform="remote", health=Cluster.Health.BAD,
                           message="The key of gpu1 is another one than before.")


def machine_is_ill(here: Installation) -> None:
    cluster = Cluster.objects.create(name="farm", platform="remote", health=Cluster.Health.GOOD)
    Machine.objects.create(cluster=cluster, name="gpu1", healthy=False, message="Its disk is full.")


def host_has_another_name(here: Installation) -> None:
    Cluster.objects.create(name="farm", platform="local", pinned_host="the-name-before")


def clock_was_set_back(here: Installation) -> None:
    now = timezone.now()
    Worker.objects.create(id="one", host="h", pid=1, started_at=now, heard_at=now + timedelta(hours=1))


def libraries_are_not_built(here: Installation) -> None:
    here.settings.STATICFILES_DIRS = []


def redis_is_away(here: Installation) -> None:
    here.settings.REDIS_URL = f"redis://:secret@127.0.0.1:{refusing_port(here)}/0"


def listens_in_the_clear(here: Installation) -> None:
    here.settings.HOST = "0.0.0.0"


def public_address_leads_nowhere(here: Installation) -> None:
    here.settings.PUBLIC_URL = f"http://127.0.0.1:{refusing_port(here)}"


def proxy_is_not_trusted(here: Installation) -> None:
    here.settings.BEHIND_TLS = here.settings.MAY_BE_REACHED = True
    here.settings.SECURE_HSTS_SECONDS, here.settings.SESSION_COOKIE_SECURE = 3600, True
    here.settings.CSRF_COOKIE_SECURE = True


def mail_server_is_away(here: Installation) -> None:
    here.settings.MAIL_URL = "smtp://ada:secret@127.0.0.1"
    here.settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    here.settings.EMAIL_HOST, here.settings.EMAIL_PORT = "127.0.0.1", refusing_port(here)


def module_for_trials_is_damaged(here: Installation) -> None:
    bundle = build_keeper(here.folder / "clusters" / "abc" / "agent").path
    subprocess.run([sys.executable, "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]); "
                    "from trialkeeper.nni_for_trials import unpack_for_trials; unpack_for_trials()", str(bundle)],
                   check=True)
    assert next(files.keepers()).verdict is Verdict.WELL
    (bundle.with_suffix(".for_trials") / "nni" / "__init__.py").write_bytes(b"")


def keepers_program_is_damaged(here: Installation) -> None:
    build_keeper(here.folder / "clusters" / "abc" / "agent").path.write_bytes(b"")


def kept_file_is_empty(here: Installation) -> None:
    path = default_storage.save("trials/x/model", ContentFile(b""))
    here.opened.callback(default_storage.delete, path)
    attempt = here.make_attempt(here.make_experiment(status="DONE"))
    TrialFile.objects.create(attempt=attempt, name="model.bin", size=6, storage_path=path)


def code_archive_is_gone(here: Installation) -> None:
    CodeArchive.objects.create(sha256="a" * 64, size=9, file_count=1, last_used=timezone.now(),
                               storage_path=f"code/{'a' * 64}.tar.gz")


def small_database(folder: Path) -> Path:
    """What the settings name as the file of the database: the tests' own is locked by the test's transaction."""
    path = folder / "nniweb.sqlite3"
    with closing(sqlite3.connect(path)) as ours:
        ours.executescript("CREATE TABLE t (a, b); CREATE INDEX i ON t (b);")
        ours.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 200) for number in range(500)])
        ours.commit()
    return path


FAULTS = [
    (port_is_taken, "server", "cannot be used", "NNIWEB_PORT"),
    (server_hangs, "server", "no server answers", "end that process and start the server again"),
    (folder_is_open_to_all, "settings", "accessible to every user of this machine", "chmod 700"),
    (key_is_open_to_all, "keys", "can be read by users other", "chmod 600"),
    (key_is_lost, "secrets", "1 stored secret(s) cannot be decrypted", "Restore the old key"),
    (disk_is_nearly_full, "disk", "are free in the data folder", "Free disk space"),
    (database_is_damaged, "database", "is damaged", "restore FILE"),
    (database_is_missing, "database", "does not exist yet", "NNIWEB_DATA"),
    (database_is_locked, "database writes", "Another process has locked the database", "fuser"),
    (database_is_old, "database", "older than this program: 1 changes are missing", "migrate"),
    (database_is_newer, "database", "does not know experiments.9999_of_next_year", "Install the newer version"),
    (no_worker_is_alive, "workers", "no worker is alive", "Start the server"),
    (cluster_needs_a_person, "cluster farm", "The key of gpu1 is another one", "Test cluster"),
    (machine_is_ill, "cluster farm", "gpu1 cannot be used: Its disk is full.", "Test cluster"),
    (host_has_another_name, "cluster farm", "the-name-before is not running", "restore its old name"),
    (module_for_trials_is_damaged, "keeper", "nni/__init__.py is damaged", "Restart the server"),
    (keepers_program_is_damaged, "keeper", ".pyz is damaged", "Restart the server"),
    (kept_file_is_empty, "kept files", "1 of them, such as model.bin of trial", "backup"),
    (code_archive_is_gone, "code archives", "1 of them, such as code/aaa", "launch the same code again"),
    (clock_was_set_back, "clock", "in the future", "Set the clock"),
    (libraries_are_not_built, "browser libraries", "echarts.min.js is missing", "make packages"),
    (redis_is_away, "Redis", "does not answer", "Start Redis there, or correct NNIWEB_REDIS_URL"),
    (listens_in_the_clear, "TLS", "would cross the network unencrypted", "Put a proxy with TLS in front"),
    (public_address_leads_nowhere, "public address", "No server answers at", "Check that the server runs"),
    (proxy_is_not_trusted, "TLS", "none is trusted", "Name the proxy in NNIWEB_TRUSTED_PROXIES"),
    (mail_server_is_away, "mail", "cannot be used", "NNIWEB_MAIL_URL"),
]


def test_an_installation_that_is_well_has_no_faults(installation: Installation) -> None:
    found = examine()
    assert [each for each in found if each.verdict in (Verdict.WRONG, Verdict.WARNING)] == []
    assert exit_status(found) == 0
    assert {each.about for each in found} >= {"data folder", "keys", "disk", "database", "server", "workers", "clock"}


def test_a_full_disk_where_nothing_is_ever_removed_names_retention(installation: Installation, settings: Any) -> None:
    disk_is_nearly_full(installation)
    remedies = [next(files.disk()).remedy]
    settings.KEEP_DAYS = {**settings.KEEP_DAYS, "output": 30}
    remedies.append(next(files.disk()).remedy)
    assert ["docs/retention.md" in remedy for remedy in remedies] == [True, False]


def test_keys_of_the_environment_are_not_missed_in_the_data_folder(
        installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNIWEB_SEAL_KEYS", Fernet.generate_key().decode())
    monkeypatch.setenv("NNIWEB_SECRET_KEY", "k" * 60)
    given = installation.folder / "of-the-service"
    given.write_text("abc\n")
    monkeypatch.setenv("NNIWEB_INSTALLATION_FILE", str(given))
    for file in (installation.folder / "keys").iterdir():
        file.unlink()
    assert next(files.keys()).verdict is Verdict.WELL


#: Each examination costs a third of a second; these are left to ``make test-all``.
SLOW = {server_hangs, key_is_open_to_all, database_is_missing, database_is_locked,
        database_is_newer, machine_is_ill, host_has_another_name,
        listens_in_the_clear, public_address_leads_nowhere, proxy_is_not_trusted}


@pytest.mark.parametrize(("plant", "about", "message", "remedy"), [
    pytest.param(*fault, id=fault[0].__name__, marks=pytest.mark.slow if fault[0] in SLOW else ()) for fault in FAULTS])
def test_doctor_finds_the_planted_fault_and_names_the_remedy(
        plant: Callable[[Installation], None], about: str, message: str, remedy: str,
        installation: Installation) -> None:
    plant(installation)
    found = faults()
    assert [each.about for each in found] == [about], found
    assert message in found[0].message
    assert remedy in found[0].remedy
    assert "secret@" not in str(found)
    assert exit_status(found) == (1 if found[0].verdict is Verdict.WRONG else 3)
