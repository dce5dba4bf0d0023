"""A server loads the libraries of platforms and algorithms when they are used, not when it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.running_server import ROOT

#: What takes long to load, or much memory, and is of use to some experiments only.
OF_SOME_EXPERIMENTS = {"kubernetes", "paramiko", "azure", "optuna", "numpy", "scipy", "sklearn", "sqlalchemy",
                       "authlib", "redis", "pandas", "tensorboard"}


def test_a_server_starts_without_libraries_that_only_some_experiments_use(tmp_path: Path) -> None:
    program = ("import json, sys\n"
               "import nniweb.asgi, nniweb.urls, nniweb.worker.supervisor\n"
               "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NNIWEB_")}
    environment |= {"NNIWEB_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "nniweb.settings"}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "nniweb" in loaded
    assert loaded.isdisjoint(OF_SOME_EXPERIMENTS)
