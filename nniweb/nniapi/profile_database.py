"""The database in which NNI's tools look for the config of an experiment, below its folder. No Django."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TABLE = ("CREATE TABLE ExperimentProfile (params text, id text, execDuration integer, startTime integer, "
          "endTime integer, logDir text, nextSequenceId integer, revision integer)")
_COLUMNS = ("params", "id", "execDuration", "startTime", "endTime", "logDir", "nextSequenceId", "revision")


def write_profile(folder: Path, document: Mapping[str, Any]) -> None:
    """Make ``nni.sqlite`` in the folder anew, with this profile. Raises OSError and sqlite3.Error."""
    path = folder / "nni.sqlite"
    draft = path.with_name("draft")
    draft.unlink(missing_ok=True)
    database = sqlite3.connect(draft)
    try:
        database.execute(_TABLE)
        row = {**document, "params": json.dumps(document["params"])}
        database.execute(f"INSERT INTO ExperimentProfile VALUES ({', '.join('?' * len(_COLUMNS))})",
                         [row.get(column) for column in _COLUMNS])
        database.commit()
    finally:
        database.close()
    draft.replace(path)
