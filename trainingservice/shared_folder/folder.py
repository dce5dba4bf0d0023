"""A folder on a storage that the containers of trials and this server (or a login node) have: what goes through it.

    <storage>/nniweb/keepers/keeper-<hash>.pyz            the keeper, once
    <storage>/nniweb/<experiment>/code/<sha256>.tar.gz    code, where it does not come from the server
    <storage>/nniweb/<experiment>/<job name>/             one folder for each attempt, with its job.json

Where containers run as other users than this server, folders are made for everybody to write in; no secret
is written into those.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from trainingservice.code.code_archive import archive_of, require_archive
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.files.output_folder import OutputFolder
from trainingservice.keeper.journal_delivery import new_entries
from trainingservice.keeper.keeper_bundle import build_keeper
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.polling.job_record import Observation
from trainingservice.rest.told_json import read_json
from trainingservice.submit_host.disk import Disk, LocalDisk
from trainingservice.trial_job import JobApplicationForm, TrialCode, job_document
from trialkeeper import contract
from trialkeeper.rank_launcher import rank_folder

logger = logging.getLogger(__name__)

TOP = "nniweb"
KEEPERS, CODE = "keepers", "code"
#: Bytes of a journal's first line at most.
_LONGEST_HEADER = 4096


class SharedFolder:
    """Any method may be called from any thread. What the disk refuses becomes TemporaryError, with a sentence."""

    def __init__(self, mounted_here: Path, mounted_there: str, scratch: Path, *, private: bool = False,
                 disk: Disk | None = None) -> None:
        """The same storage as this server sees it and as containers do; ``scratch``: a folder for packing code.

        ``private``: containers run as the user who owns the folder, so nobody else gets in. ``disk``: of the machine
        on which ``mounted_here`` is a folder, where that is not this one.
        """
        self.root = mounted_here
        self.disk: Disk = disk or LocalDisk()
        self._folder_mode, self._file_mode = (0o700, 0o600) if private else (0o777, 0o644)
        self._there = PurePosixPath(mounted_there)
        self._scratch = scratch
        #: What to say where the folder is not there.
        self.missing = (f"The storage is not mounted on this server: there is no folder {self.root}. Mount it, or "
                        "correct localStorageMountPoint.")

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
            built = build_keeper(self._scratch.with_name(KEEPERS)).path
            path = self._folder(self.root / TOP / KEEPERS) / built.name
            if self.disk.size(path) != built.stat().st_size:  # named by its hash; a power cut may have left it empty
                self.disk.copy(built, path, 0o644)
            return self.there(path)

    def put_job(self, form: JobApplicationForm, platform: str, *, code_from_server: bool,
                more: dict[str, contract.JobDocument] | None = None, path: Sequence[str] = ()) -> Path:
        """Make the attempt's folder with what to run in it; the folder. An existing one stays as it is.

        ``more``: documents of further replicas, by the name of their folder below the attempt's.
        Raises PermanentError where the code is missing.
        """
        require_archive(form.code)
        with self._disk("be written"):
            code = self._code(form, code_from_server)
            folder = self._folder(self.attempt(form.experiment_id, form.job_name))
            document = job_document(form, platform=platform, code=code, path=list(path))
            for name, job in {"": document, **(more or {})}.items():
                target = self._folder(folder / name) / contract.JOB_FILE
                if not _read_object(self.disk, target):  # none, or one that a power cut has damaged
                    _put(self.disk, target, json.dumps({**document, **job} if name else document), self._file_mode,
                         durable=True)
        return folder

    def write(self, path: Path, text: str) -> None:
        """Put a small file into an attempt's folder."""
        with self._disk("be written"):
            self._folder(path.parent)
            _put(self.disk, path, text, self._file_mode, durable=True)

    def read(self, path: Path) -> str | None:
        """A small file of an attempt's folder; None where there is none."""
        with self._disk("be read"):
            content = self.disk.read(path)
        return None if content is None else content.decode(errors="replace")

    def remove(self, path: Path) -> None:
        """A small file of an attempt's folder. Harmless where there is none."""
        with self._disk("be written"):
            self.disk.remove_file(path)

    def cancel(self, experiment_id: str, job_name: str) -> None:
        """Leave the tombstone: a living keeper ends its trial within a second, a later one starts nothing."""
        with self._disk("be written"):
            folder = self._folder(self.attempt(experiment_id, job_name))
            self.disk.touch(folder / contract.CANCELED_FILE)

    def is_canceled(self, experiment_id: str, job_name: str) -> bool:
        with self._disk("be read"):
            return self.disk.exists(self.attempt(experiment_id, job_name) / contract.CANCELED_FILE)

    def give_orders(self, experiment_id: str, job_name: str, orders: list[contract.Order]) -> None:
        """The keeper obeys within a second."""
        folder = self.attempt(experiment_id, job_name)
        self.write(folder / contract.ORDERS_FILE, json.dumps(orders))

    def seen_end(self, experiment_id: str, job_name: str) -> Observation | None:
        """How the trial ended by its keeper's word; None where that is not known here (or not for us to read)."""
        try:
            document = _read_object(self.disk, self.attempt(experiment_id, job_name) / contract.EXIT_FILE)
        except (OSError, TemporaryError):
            return None
        return None if not document or document.get("claimed") else observed_exit(document)

    def working_directory(self, experiment_id: str, job_name: str) -> str:
        """The trial's working directory as its container sees it."""
        return self.there(self.attempt(experiment_id, job_name) / contract.CODE_FOLDER)

    def output(self, experiment_id: str, job_name: str) -> OutputFolder:
        """What the attempt's trial wrote into its output folder. Asks nothing yet."""
        return self.disk.output(self.root, f"{TOP}/{experiment_id}/{job_name}/{contract.NNI_FOLDER}")

    def of_rank(self, experiment_id: str, job_name: str, rank: int) -> OutputFolder:
        """The folder of one rank of a trial with several nodes. Asks nothing yet."""
        return self.disk.output(self.root, rank_folder(f"{TOP}/{experiment_id}/{job_name}", rank))

    def remove_experiment(self, experiment_id: str) -> None:
        """Remove all of an experiment. Raises PermanentError naming what only somebody else may remove."""
        folder = self.experiment(experiment_id)
        with self._disk("be written"):
            problems = self.disk.remove_folder(folder) if self.disk.exists(folder) else []
        if problems:
            raise PermanentError(f"The folder {folder} cannot be removed completely, because containers wrote into it "
                                 f"as another user: {problems[0]}. Remove it by hand, as that user or as root.")

    def problem(self) -> str:
        """Why the storage cannot be used from here, a sentence; "" where it can."""
        try:
            with self._disk("be read"):
                if not self.disk.is_folder(self.root):
                    return self.missing
            with self._disk("be written"):
                probe = self._folder(self.root / TOP) / f".rehearsal-{uuid.uuid4().hex[:8]}"
                self.disk.touch(probe)
                self.disk.remove_file(probe)
        except TemporaryError as error:
            return str(error)
        return ""

    def free_bytes(self) -> int | None:
        """None where the machine that has the storage does not tell. Raises OSError."""
        return self.disk.free_bytes(self.root)

    def _code(self, form: JobApplicationForm, code_from_server: bool) -> contract.CodeDocument | None:
        code: TrialCode | None = form.code
        if code is None:
            return None
        if code_from_server and code.sha256 is not None:
            return {"sha256": code.sha256}
        archive, sha256 = archive_of(code, self._scratch)
        target = self._folder(self.experiment(form.experiment_id) / CODE) / f"{sha256}.tar.gz"
        if self.disk.size(target) != archive.stat().st_size:
            self.disk.copy(archive, target, self._file_mode)
        return {"sha256": sha256, "archive": self.there(target)}

    def _folder(self, path: Path) -> Path:
        """The folder, made with its parents below the root; containers may write in it."""
        if not self.disk.is_folder(path):
            if not self.disk.is_folder(self.root):
                raise FileNotFoundError(2, "it is not mounted here", str(self.root))
            if path.parent != self.root and path != self.root:
                self._folder(path.parent)
            self.disk.make_folder(path, self._folder_mode)
        return path

    @contextmanager
    def _disk(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TemporaryError(f"The storage mounted at {self.root} cannot {what}: {error.strerror or error}. Check "
                                 "that it is mounted there, that the server's user may write to it, and that it has "
                                 "free space.") from error


class FolderJournal:
    """The journal of one attempt in a shared folder, for ``CollectedJournals``."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk: Disk = disk or LocalDisk()
        self._offset = 0

    def read(self) -> tuple[str, dict[str, Any], list[contract.Entry]]:
        """Its id ("" where there is none yet), the keeper, the entries that were not read before. Raises OSError."""
        path = self._folder / contract.JOURNAL_FILE
        header, newline, _ = (self._disk.read(path, 0, _LONGEST_HEADER) or b"").partition(b"\n")
        if not newline:
            return "", {}, []
        self._offset = max(self._offset, len(header) + 1)
        entries, size = new_entries(self._disk.read(path, self._offset) or b"")
        self._offset += size
        keeper = _read_object(self._disk, self._folder / contract.KEEPER_FILE)
        return str(read_json(header)["journal_id"]), keeper, entries

    def rewind(self) -> None:
        """Give all entries again with the next ``read``."""
        self._offset = 0

    def acknowledge(self, number: int) -> None:
        """The server has all entries up to this one."""
        _put(self._disk, self._folder / contract.ACCEPTED_FILE, str(number))

    def obey(self, orders: list[contract.Order]) -> None:
        _put(self._disk, self._folder / contract.ORDERS_FILE, json.dumps(orders))

    def cancel(self) -> None:
        self._disk.touch(self._folder / contract.CANCELED_FILE)


def _put(disk: Disk, path: Path, text: str, mode: int = 0o644, *, durable: bool = False) -> None:
    disk.put(path, text.encode(), mode, durable=durable)


def _read_object(disk: Disk, path: Path) -> dict[str, Any]:
    """The JSON object in a file; {} where there is none (or only half of one)."""
    try:
        document = read_json(disk.read(path) or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
