"""What a person reads when the server cannot start: a sentence that says what to do, never a traceback."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nniweb.storage import data_folder
from nniweb.storage.data_folder import ServerLock
from tests.forking import programs as forked_programs

ROOT = Path(__file__).resolve().parents[2]


def serve(data_folder: Path, **variables: str) -> str:
    """What ``manage.py serve`` says before it ends; it must not come up."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    environment |= {"NNIWEB_DATA": str(data_folder), "NNIWEB_DEMO": "0", **variables}
    if forked_programs.can_start(environment):
        done = forked_programs.run(["manage.py", "serve"], cwd=ROOT, env=environment, timeout=60)
    else:
        done = subprocess.run([sys.executable, "manage.py", "serve"], cwd=ROOT, env=environment, text=True,
                              capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(("name", "value", "sentence"), [
    ("NNIWEB_PORT", "eighty", 'NNIWEB_PORT must be a whole number, not "eighty".'),
    pytest.param("NNIWEB_KEEP_JOBS_DAYS", "0", 'must be saved, forever or a number of days from 1 to 36500, not "0"',
                 marks=pytest.mark.slow),
    ("NNIWEB_FILE_STORAGE", "s3", 'NNIWEB_FILE_STORAGE must be the dotted name of a storage class of Django, not '
     '"s3".'),
    ("NNIWEB_CHECKPOINT_STORAGE", "s3", 'NNIWEB_CHECKPOINT_STORAGE must be the dotted name of a storage class of '
     'Django, not "s3".'),
    pytest.param("NNIWEB_CHECKPOINT_STORAGE_OPTIONS", "bucket=nni", "NNIWEB_CHECKPOINT_STORAGE_OPTIONS must be a JSON "
                 "object", marks=pytest.mark.slow),
    ("NNIWEB_DEBUG", "perhaps", 'NNIWEB_DEBUG must be 1 or 0, not "perhaps".'),
    ("NNIWEB_REDIS_URL", "redis.example:6379", "NNIWEB_REDIS_URL must begin with redis://"),
    ("NNIWEB_MAIL_URL", "mail.example:25", "NNIWEB_MAIL_URL is not the address of a mail server; write smtp"),
    pytest.param("NNIWEB_OIDC_ISSUER", "http://sso.example", "NNIWEB_OIDC_ISSUER must begin with https://",
                 marks=pytest.mark.slow),
    pytest.param("NNIWEB_OIDC_ISSUER", "https://sso.example", "is set, but NNIWEB_OIDC_CLIENT_ID is not",
                 marks=pytest.mark.slow),
    pytest.param("NNIWEB_OIDC_ROLE", "king", 'NNIWEB_OIDC_ROLE must be viewer, member or admin, not "king"',
                 marks=pytest.mark.slow),
    ("NNIWEB_HOST", "0.0.0.0", "Passwords and tokens would cross the network unencrypted. Put a proxy with TLS in"),
    pytest.param("NNIWEB_CA_FILE", "/no/such.pem", "NNIWEB_CA_FILE names /no/such.pem, which cannot be read",
                 marks=pytest.mark.slow),
    ("NNIWEB_SECRET_KEY_FILE", "/no/such/file", "NNIWEB_SECRET_KEY_FILE names /no/such/file, which cannot be read"),
])
def test_a_wrong_value_is_a_sentence_with_the_name_of_the_variable(name: str, value: str, sentence: str,
                                                                    tmp_path: Path) -> None:
    assert sentence in serve(tmp_path, **{name: value})


#: argv: names of variables, and values; prints what loading the settings says of each of both, None where it loads.
LOADER = """
import json, os, runpy, sys
from django.core.exceptions import ImproperlyConfigured

said = {}
for name in sys.argv[1].split(","):
    for value in sys.argv[2].split(","):
        os.environ[name] = value
        try:
            runpy.run_path("nniweb/settings.py")
            said[f"{name}={value}"] = None
        except ImproperlyConfigured as error:
            said[f"{name}={value}"] = str(error)
    del os.environ[name]
print(json.dumps(said))
"""


def test_a_number_that_is_out_of_range_is_refused_with_the_name_and_the_range(tmp_path: Path) -> None:
    numbers = re.findall(r'number\("(NNIWEB_\w+)"', (ROOT / "nniweb" / "settings.py").read_text())
    assert len(numbers) > 10
    done = subprocess.run(
        [sys.executable, "-c", LOADER, ",".join(numbers), f"-1,{10**20}"], cwd=ROOT, text=True, capture_output=True,
        timeout=60, check=False, env={**os.environ, "NNIWEB_DATA": str(tmp_path),
                                      "NNIWEB_DATABASE_URL": "postgres://nobody@127.0.0.1:9/none"})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert len(said) == 2 * len(numbers)
    for given, sentence in said.items():
        name, _, value = given.partition("=")
        assert sentence is not None, given
        assert re.fullmatch(rf"{name} must be a whole number from \d+ to \d+, not {value}\.", sentence)


def test_loading_the_settings_makes_nothing_and_setting_up_django_makes_folder_and_keys(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def python(program: str) -> None:
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60, env={
            **os.environ, "NNIWEB_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "nniweb.settings"})

    python("import nniweb.settings")
    assert not folder.exists()
    python("import django; django.setup()")
    assert sorted(path.name for path in (folder / "keys").iterdir()) == ["installation", "seal_keys", "secret_key"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = serve(tmp_path / "file" / "data")
    assert f"The data folder {tmp_path}/file/data cannot be created" in said
    assert "NNIWEB_DATA" in said


def test_a_taken_port_is_named_with_another_to_try(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = serve(tmp_path, NNIWEB_PORT=str(port))
    assert f"Port {port} on 127.0.0.1 cannot be used" in said
    assert "NNIWEB_PORT=" in said


def test_a_data_folder_in_use_says_where_its_server_is(tmp_path: Path) -> None:
    lock = ServerLock(tmp_path)
    lock.acquire()
    try:
        lock.write_address(["http://127.0.0.1:4321"])
        said = serve(tmp_path)
    finally:
        lock.release()
    assert f"The data folder {tmp_path} is in use by another server at http://127.0.0.1:4321" in said
    assert f"process {os.getpid()}" in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A disk of its own with these mount options. Root only."""
    if os.geteuid() != 0:
        pytest.skip("needs root: machines of their own, other users, small disks")
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options: str) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(disk)], check=True)
        return disk

    yield mount
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_disk_without_room_for_the_keys_of_a_new_installation_is_a_sentence(small_disk) -> None:
    disk = small_disk("size=64k,nr_inodes=3")  # the folder and its keys' folder, and no file
    said = serve(disk / "data")
    assert f"The keys in {disk}/data/keys cannot be read or created: No space left on device. Free disk space" in said


def test_a_data_folder_that_has_become_read_only_is_a_sentence(small_disk) -> None:
    disk = small_disk("size=1m")
    data = disk / "data"
    data_folder.prepare(data)
    for make in (data_folder.installation_id, data_folder.secret_key, data_folder.seal_keys):
        make(data)
    data_folder.prepare(data / "static")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert f"The data folder {data} cannot be used: Read-only file system. Free disk space" in serve(data)
