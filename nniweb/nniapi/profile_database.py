"""The database of an experiment as NNI has it below the experiment's folder, which NNI's tools read. No Django."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Table -> its columns with their types, as NNI 2 and 3 make them.
_TABLES = {
    "ExperimentProfile": ("params text", "id text", "execDuration integer", "startTime integer", "endTime integer",
                          "logDir text", "nextSequenceId integer", "revision integer"),
    "TrialJobEvent": ("timestamp integer", "trialJobId text", "event text", "data text", "logPath text",
                      "sequenceId integer", "message text", "environmentId text"),
    "MetricData": ("timestamp integer", "trialJobId text", "parameterId text", "type text", "sequence integer",
                   "data text"),
}


def write_profile(folder: Path, document: Mapping[str, Any], events: Iterable[Mapping[str, Any]] = (),
                  metrics: Iterable[Mapping[str, Any]] = ()) -> None:
    """Make ``nni.sqlite`` in the folder anew, with this profile, events of trials and metrics; columns that they do not
    have are empty. Raises OSError and sqlite3.Error.
    """
    path = folder / "nni.sqlite"
    draft = path.with_name("draft")
    draft.unlink(missing_ok=True)
    database = sqlite3.connect(draft)
    try:
        rows = {"ExperimentProfile": [{**document, "params": json.dumps(document["params"])}],
                "TrialJobEvent": events, "MetricData": metrics}
        for table, columns in _TABLES.items():
            names = [column.partition(" ")[0] for column in columns]
            database.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
                                 ([row.get(name) for name in names] for row in rows[table]))
        database.commit()
    finally:
        database.close()
    draft.replace(path)
