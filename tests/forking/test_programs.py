"""What tests start quickly is what people start: a program with settings, a folder and keys of its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT
from tests.forking import programs as forked_programs

#: What a program sees of its installation, and whether Django was there before it.
TELL = """
import json, sys
was_there = "nniweb.worker.supervisor" in sys.modules
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import connection
connection.ensure_connection()
print(json.dumps({"data": settings.DATA_FOLDER, "port": settings.PORT, "database": connection.settings_dict["NAME"],
                  "files": default_storage.location, "static": settings.STATIC_ROOT, "key": settings.SECRET_KEY,
                  "id": settings.INSTALLATION_ID, "debug": settings.DEBUG, "was there": was_there}, default=str))
"""


def told_by(folder: Path, port: int, **more: str) -> dict[str, Any]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("NNIWEB_", "DJANGO_"))}
    done = forked_programs.run(["manage.py", "shell", "--no-imports", "-v0", "-c", TELL], cwd=ROOT, timeout=120, env={
        **own, "NNIWEB_DATA": str(folder), "NNIWEB_PORT": str(port), **more})
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_each_has_settings_and_a_folder_of_its_own(tmp_path: Path) -> None:
    one, other = told_by(tmp_path / "one", 1111), told_by(tmp_path / "other", 2222)
    for told, name, port in ((one, "one", 1111), (other, "other", 2222)):
        folder = tmp_path / name
        assert told["was there"]
        assert told["port"] == port
        assert {told["data"], told["database"], told["files"], told["static"]} == {
            str(folder / part) for part in ("", "nniweb.sqlite3", "files", "static")}
        assert {path.name for path in folder.iterdir()} >= {"keys", "nniweb.sqlite3"}
    assert one["key"] != other["key"]
    assert one["id"] != other["id"]


@pytest.mark.slow
def test_a_setting_that_differs_from_what_was_loaded_has_a_program_that_loads_by_itself(tmp_path: Path) -> None:
    told = told_by(tmp_path / "data", 1111, NNIWEB_DEBUG="1")
    assert told["debug"] is True
    assert not told["was there"]


def test_those_that_run_are_known_by_their_environment_until_they_end(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import threading\nthreading.Event().wait(600)\n")
    with open(os.devnull, "wb") as nothing:
        program = forked_programs.start(["waits.py"], cwd=tmp_path, stdout=nothing.fileno(), stderr=nothing.fileno(),
                                        env={**os.environ, "NNIWEB_DATA": str(tmp_path / "data")})
    known = forked_programs.running(str(tmp_path / "data"))
    program.kill()
    program.wait(60)
    assert known == {program.pid: f"{sys.executable} waits.py"}
    assert not forked_programs.running(str(tmp_path / "data"))
