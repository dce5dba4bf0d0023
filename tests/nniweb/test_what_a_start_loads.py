"""A server loads the libraries of platforms and algorithms when they are used, not when it starts; what it has loaded
it does not look through for garbage again and again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.end_to_end.running_server import ROOT

#: What takes long to load, or much memory, and is of use to some experiments only.
OF_SOME_EXPERIMENTS = {"kubernetes", "paramiko", "azure", "optuna", "numpy", "scipy", "sklearn", "sqlalchemy",
                       "authlib", "redis", "pandas", "tensorboard", "requests", "urllib3", "mcp", "mcp_types",
                       "starlette", "httpx2", "opentelemetry", "google"}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has loaded a server."""
    program = ("import gc, json, sys\n"
               "import nniweb.asgi, nniweb.urls, nniweb.worker.supervisor\n"
               "print(json.dumps({'modules': sorted({name.partition('.')[0] for name in sys.modules}),\n"
               "                  'left_alone': gc.get_freeze_count(), 'looked_through': len(gc.get_objects())}))")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NNIWEB_")}
    environment |= {"NNIWEB_DATA": str(tmp_path_factory.mktemp("data")), "DJANGO_SETTINGS_MODULE": "nniweb.settings"}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_server_starts_without_libraries_that_only_some_experiments_use(started: dict[str, Any]) -> None:
    loaded = set(started["modules"])
    assert "nniweb" in loaded
    assert loaded.isdisjoint(OF_SOME_EXPERIMENTS)


def test_what_a_server_has_loaded_is_not_looked_through_for_garbage(started: dict[str, Any]) -> None:
    assert started["left_alone"] > 10 * started["looked_through"]


def test_neither_is_what_a_command_has_loaded() -> None:
    program = "import gc; print(gc.isenabled(), gc.get_freeze_count(), len(gc.get_objects()))"
    done = subprocess.run([sys.executable, str(ROOT / "manage.py"), "shell", "-v0", "--no-imports", "-c", program],
                          cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    is_looking, left_alone, looked_through = done.stdout.split()
    assert is_looking == "True"
    assert int(left_alone) > 10 * int(looked_through)
