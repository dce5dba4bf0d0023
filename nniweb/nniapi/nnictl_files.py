"""What nnictl reads of an experiment in its own folders, beside what it asks the experiment's port.

NNI 2 and 3 look below ``~/nni-experiments``: the config in a database, the manager's output as two log files. NNI 1
looks below ``~/.local/nnictl``. Both folders of the experiment are there as long as its port is open.
"""

import json
import logging
import os
import shutil
import sqlite3
from datetime import datetime
from typing import Any

from nniweb.experiments.models import Experiment
from nniweb.experiments.queries.experiment_log import as_text, fitting
from nniweb.nniapi.documents import profile
from nniweb.nniapi.nni_folders import new_home, old_home
from nniweb.nniapi.profile_database import write_profile

logger = logging.getLogger(__name__)

#: Bytes after which a log file is begun anew with what the database has kept of the log.
LARGEST_LOG = 32 * 1024 * 1024


class NnictlFiles:
    """The files of one experiment. Not thread-safe."""

    def __init__(self, experiment_id: str) -> None:
        self._folder = new_home() / experiment_id
        self._old_folder = old_home() / experiment_id
        self._logs = {"stdout": self._folder / "log" / "nnictl_stdout.log",
                      "stderr": self._folder / "log" / "nnictl_stderr.log"}
        self._revision: int | None = None
        self._params: dict[str, Any] = {}
        self._old_config: dict[str, Any] = {}
        self._last_line = 0
        self._is_begun = False

    def write(self, experiment: Experiment, now: datetime, *, old_port: int, pid: int | None) -> None:
        """Bring the files up to date. What cannot be written is logged once; nnictl does without it."""
        try:
            if not self._is_begun:
                self._begin()
            if experiment.revision != self._revision:
                document = profile(experiment, now)
                if document["params"] != self._params:
                    write_profile(self._folder / "db", document)
                    self._params = document["params"]
                self._write_logs(experiment)
                self._revision = experiment.revision
            self._write_old_config(experiment, old_port, pid)
        except (OSError, sqlite3.Error) as error:
            if self._is_begun:
                logger.warning("the files of nnictl in %s cannot be written (%s); some of its commands do not work for "
                               "this experiment", self._folder, error)
            self._is_begun = False

    def remove(self) -> None:
        """Leave nothing of them."""
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.rmtree(self._old_folder, ignore_errors=True)
        self._is_begun = False

    def _begin(self) -> None:
        """New folders: a server that was killed may have left its own."""
        self.remove()
        self._revision, self._params, self._old_config, self._last_line = None, {}, {}, 0
        for folder in (self._folder / "db", self._folder / "log", self._old_folder):
            folder.mkdir(mode=0o700, parents=True)
        for folder in (self._folder, self._old_folder):
            folder.chmod(0o700)
        self._is_begun = True
        for name, path in self._logs.items():
            path.touch()
            (self._old_folder / name).symlink_to(path)

    def _write_logs(self, experiment: Experiment) -> None:
        if self._logs["stdout"].stat().st_size > LARGEST_LOG:
            for path in self._logs.values():
                path.write_text("")
            self._last_line = 0
        new = fitting(experiment).filter(number__gt=self._last_line)
        last = new.order_by("-number").values_list("number", flat=True).first()
        if last is None:
            return
        for name, level in (("stdout", "DEBUG"), ("stderr", "WARNING")):
            lines = fitting(experiment, level=level).filter(number__gt=self._last_line, number__lte=last)
            with self._logs[name].open("a", encoding="utf-8", errors="replace") as file:
                file.writelines(as_text(lines))
        self._last_line = last

    def _write_old_config(self, experiment: Experiment, port: int, pid: int | None) -> None:
        config = {"experimentId": experiment.public_id, "restServerPort": port, "restServerPid": pid,
                  "webuiUrl": [f"http://127.0.0.1:{port}"], "experimentConfig": {
                      **self._params, "trainingServicePlatform": experiment.cluster.platform}}
        if config != self._old_config:
            draft = self._old_folder / "draft"
            draft.write_text(json.dumps(config, indent=4))
            os.replace(draft, self._old_folder / ".config")
            self._old_config = config
