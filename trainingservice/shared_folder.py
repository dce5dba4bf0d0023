"""A folder on a storage that both this server and the containers of trials have mounted: what goes through it.

    <storage>/nniweb/keepers/keeper-<hash>.pyz            the keeper, once
    <storage>/nniweb/<experiment>/code/<sha256>.tar.gz    code, where it does not come from the server
    <storage>/nniweb/<experiment>/<job name>/             one folder for each attempt, with its job.json

Where containers run as other users than this server, folders are made for everybody to write in; no secret
is written into those.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from trainingservice.code_archive import archive_of
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.job_record import Observation
from trainingservice.journal_delivery import new_entries
from trainingservice.keeper_bundle import build_keeper
from trainingservice.keeper_exit import observed_exit
from trainingservice.trial_job import JobApplicationForm, TrialCode, job_document
from trialkeeper import attempt_folder, contract

logger = logging.getLogger(__name__)

TOP = "nniweb"
KEEPERS, CODE = "keepers", "code"
#: Bytes of a journal that are read in one go.
MOST_AT_ONCE = 8 * 1024 * 1024


class SharedFolder:
    """Any method may be called from any thread. What the disk refuses becomes TemporaryError, with a sentence."""

    def __init__(self, mounted_here: Path, mounted_there: str, scratch: Path, *, private: bool = False) -> None:
        """The same storage as this server sees it and as containers do; ``scratch``: a folder for packing code.

        ``private``: containers run as the server's own user, so nobody else gets in.
        """
        self.root = mounted_here
        self._folder_mode, self._file_mode = (0o700, 0o600) if private else (0o777, 0o644)
        self._there = PurePosixPath(mounted_there)
        self._scratch = scratch

    def attempt(self, experiment_id: str, job_name: str) -> Path:
        """The attempt's folder, as this server sees it."""
        return self.experiment(experiment_id) / job_name

    def experiment(self, experiment_id: str) -> Path:
        return self.root / TOP / experiment_id

    def there(self, path: Path) -> str:
        """A path below the root as containers see it."""
        return str(self._there / path.relative_to(self.root))

    def put_keeper(self) -> str:
        """Have the keeper on the storage; its path in containers."""
        with self._disk("be written"):
            return self.there(build_keeper(self._folder(self.root / TOP / KEEPERS)).path)

    def put_job(self, form: JobApplicationForm, platform: str, *, code_from_server: bool,
                more: dict[str, contract.JobDocument] | None = None) -> Path:
        """Make the attempt's folder with what to run in it; the folder. An existing one stays as it is.

        ``more``: documents of further replicas, by the name of their folder below the attempt's.
        Raises PermanentError where the code is missing.
        """
        if form.code is not None and form.code.archive is not None and not form.code.archive.is_file():
            raise PermanentError(f"The code archive {form.code.archive} is not there any more; launch the experiment "
                                 "again.")
        with self._disk("be written"):
            code = self._code(form, code_from_server)
            folder = self._folder(self.attempt(form.experiment_id, form.job_name))
            document = job_document(form, platform=platform, code=code)
            for name, job in {"": document, **(more or {})}.items():
                target = self._folder(folder / name) / contract.JOB_FILE
                if not target.exists():
                    _replace(target, json.dumps({**document, **job} if name else document), self._file_mode)
        return folder

    def write(self, path: Path, text: str) -> None:
        """Put a small file into an attempt's folder."""
        with self._disk("be written"):
            self._folder(path.parent)
            _replace(path, text, self._file_mode)

    def cancel(self, experiment_id: str, job_name: str) -> None:
        """Leave the tombstone: a living keeper ends its trial within a second, a later one starts nothing."""
        with self._disk("be written"):
            folder = self._folder(self.attempt(experiment_id, job_name))
            (folder / contract.CANCELED_FILE).touch()

    def is_canceled(self, experiment_id: str, job_name: str) -> bool:
        return (self.attempt(experiment_id, job_name) / contract.CANCELED_FILE).exists()

    def give_orders(self, experiment_id: str, job_name: str, orders: list[contract.Order]) -> None:
        """The keeper obeys within a second."""
        folder = self.attempt(experiment_id, job_name)
        self.write(folder / contract.ORDERS_FILE, json.dumps(orders))

    def seen_end(self, experiment_id: str, job_name: str) -> Observation | None:
        """How the trial ended by its keeper's word; None where that is not known here (or not for us to read)."""
        document = attempt_folder.read_object(str(self.attempt(experiment_id, job_name) / contract.EXIT_FILE))
        return None if document is None or document.get("claimed") else observed_exit(document)

    def working_directory(self, experiment_id: str, job_name: str) -> str:
        """The trial's working directory as its container sees it."""
        return self.there(self.attempt(experiment_id, job_name) / contract.CODE_FOLDER)

    def remove_experiment(self, experiment_id: str) -> None:
        """Remove all of an experiment. Raises PermanentError naming what only somebody else may remove."""
        folder = self.experiment(experiment_id)
        problems: list[str] = []
        shutil.rmtree(folder, onerror=lambda _, path, error: problems.append(f"{path} ({error[1]})"))
        if folder.exists() and problems:
            raise PermanentError(f"The folder {folder} cannot be removed completely, because containers wrote into it "
                                 f"as another user: {problems[0]}. Remove it by hand, as that user or as root.")

    def problem(self) -> str:
        """Why the storage cannot be used from here, a sentence; "" where it can."""
        if not self.root.is_dir():
            return (f"The storage is not mounted on this server: there is no folder {self.root}. Mount it, or correct "
                    "localStorageMountPoint.")
        try:
            with self._disk("be written"):
                probe = self._folder(self.root / TOP) / f".rehearsal-{uuid.uuid4().hex[:8]}"
                probe.touch()
                probe.unlink()
        except TemporaryError as error:
            return str(error)
        return ""

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.root).free

    def _code(self, form: JobApplicationForm, code_from_server: bool) -> contract.CodeDocument | None:
        code: TrialCode | None = form.code
        if code is None:
            return None
        if code_from_server and code.sha256 is not None:
            return {"sha256": code.sha256}
        archive, sha256 = archive_of(code, self._scratch)
        target = self._folder(self.experiment(form.experiment_id) / CODE) / f"{sha256}.tar.gz"
        if not target.is_file():
            partial = target.with_name(f".{uuid.uuid4().hex[:8]}.part")
            shutil.copyfile(archive, partial)
            partial.chmod(self._file_mode)
            os.replace(partial, target)
        return {"sha256": sha256, "archive": self.there(target)}

    def _folder(self, path: Path) -> Path:
        """The folder, made with its parents below the root; containers may write in it."""
        if not path.is_dir():
            if not self.root.is_dir():
                raise FileNotFoundError(2, "it is not mounted here", str(self.root))
            if path.parent != self.root and path != self.root:
                self._folder(path.parent)
            path.mkdir(exist_ok=True)
            path.chmod(self._folder_mode)
        return path

    @contextmanager
    def _disk(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TemporaryError(f"The storage mounted at {self.root} cannot {what}: {error.strerror or error}; see "
                                 "that it is mounted there, that the server's user may write to it, and that there is "
                                 "room.") from error


class FolderJournal:
    """The journal of one attempt in a shared folder, for ``CollectedJournals``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offset = 0

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        """Its id ("" where there is none yet), the keeper, the entries that were not read before. Raises OSError."""
        try:
            with (self._folder / contract.JOURNAL_FILE).open("rb") as stream:
                header = stream.readline(65536)
                if not header.endswith(b"\n"):
                    return "", {}, []
                self._offset = max(self._offset, len(header))
                stream.seek(self._offset)
                entries, size = new_entries(stream.read(MOST_AT_ONCE))
        except FileNotFoundError:
            return "", {}, []
        self._offset += size
        keeper = attempt_folder.read_object(str(self._folder / contract.KEEPER_FILE)) or {}
        return str(json.loads(header)["journal_id"]), keeper, entries

    def rewind(self) -> None:
        """Give all entries again with the next ``read``."""
        self._offset = 0

    def acknowledge(self, number: int) -> None:
        """The server has all entries up to this one."""
        _replace(self._folder / contract.ACCEPTED_FILE, str(number))

    def obey(self, orders: list[contract.Order]) -> None:
        _replace(self._folder / contract.ORDERS_FILE, json.dumps(orders))

    def cancel(self) -> None:
        (self._folder / contract.CANCELED_FILE).touch()


def _replace(path: Path, text: str, mode: int = 0o644) -> None:
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.chmod(mode)
    os.replace(partial, path)
