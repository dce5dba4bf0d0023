"""The storage of django-storages serves as that of files, too. It runs where botocore can be installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.moto_s3 import MotoS3

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]

_PROGRAM = """
import json, sys
from django.conf import settings
settings.configure(USE_TZ=True)
import django
django.setup()
from django.core.files.base import ContentFile
from nniweb.storage.elsewhere import StorageElsewhere, StorageFailed
options = json.loads(sys.argv[1])
def made(**others):
    return StorageElsewhere("storages.backends.s3.S3Storage", {
        "bucket_name": options["bucket"], "endpoint_url": options["endpoint"], "access_key": options["access_key"],
        "secret_key": options["secret_key"], "region_name": "us-east-1", "location": "lab", **others})
storage, found = made(), {}
content = b"weights" * 2_000_000
found["name"] = storage.save("trials/a", ContentFile(content))
found["same"] = storage.open("trials/a").read() == content
found["bytes"] = storage.size("trials/a")
storage.save("trials/a", ContentFile(b"second"))
found["replaced"] = storage.open("trials/a").read().decode()
storage.delete("trials/a")
storage.delete("trials/a")
found["there"] = storage.exists("trials/a")
for name, ask in (("open", storage.open), ("size", storage.size)):
    try:
        ask("trials/a")
    except FileNotFoundError:
        found[name] = "missing"
for name, others in (("keys", {"secret_key": "wrong"}), ("away", {"endpoint_url": "http://127.0.0.1:9"})):
    try:
        made(**others).save("trials/b", ContentFile(b"b"))
    except StorageFailed as error:
        found[name] = error.what
print(json.dumps(found))
"""


@pytest.fixture
def service() -> Iterator[MotoS3]:
    service = MotoS3()
    yield service
    service.close()


def test_it_keeps_gives_out_replaces_and_removes_files_and_its_errors_are_those_of_a_storage(service: MotoS3) -> None:
    done = subprocess.run([str(service.python), "-c", _PROGRAM, json.dumps(service.options)], cwd=ROOT, text=True,
                          capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "name": "trials/a", "same": True, "bytes": 14_000_000, "replaced": "second", "there": False, "open": "missing",
        "size": "missing", "keys": "does not accept the credentials, or they may not do this",
        "away": "does not answer"}
