"""Brings event files of trials to this host, and goes on bringing what they gain while the trials run.

Nothing but event files is taken: TensorBoard's plugins read other files of a run as instructions, and a trial could
name files of the server in them. So a folder is copied also where the server could read it in place.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from nniweb.experiments.downloads.kept_files import KeptFileDamaged, content_of
from nniweb.experiments.downloads.trial_output_folder import TrialOutputFolder
from nniweb.experiments.models import Attempt, Trial, TrialFile
from nniweb.tensorboard.run_names import is_event_file, run_path
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.files.output_folder import FoundFile

logger = logging.getLogger(__name__)


TOO_MUCH = "has more event files than a TensorBoard of this server copies (NNIWEB_TENSORBOARD_MB)"


class TooMuch(Exception):
    """More than a TensorBoard may copy."""


class TrialCopy:
    """The event files of one trial's last attempt, in ``<logs>/trial-N``. For one thread."""

    def __init__(self, trial: str, logs: Path) -> None:
        """``trial``: its public id."""
        self._trial, self._logs = trial, logs
        self._source: TrialOutputFolder | None = None
        self._attempt: int | None = None
        self._numbers: dict[Path, int] = {}
        #: Why its files could not be brought, or are not all there; "" where they are.
        self.problem = ""
        #: It has ended, and no more of it will come.
        self.is_whole = False
        self.size = 0
        #: How people know the trial.
        self.name = trial

    def bring(self, most: int) -> None:
        """Bring what is new, at most until ``most`` bytes are here. What goes wrong is ``problem``."""
        found = Trial.objects.filter(public_id=self._trial).first()
        attempt = Attempt.objects.filter(trial__public_id=self._trial).select_related(
            "cluster", "trial__experiment__cluster", "trial__experiment__code").order_by("-number").first()
        if found is None or attempt is None:
            self.problem = "has not started yet"
            return
        self.name = f"trial {found.sequence_id}"
        folder = self._logs / f"trial-{found.sequence_id}"
        if attempt.pk != self._attempt:
            self.close()
            shutil.rmtree(folder, ignore_errors=True)  # of the attempt before it
            self._attempt, self._numbers, self.size = attempt.pk, {}, 0
        is_final = found.is_finished  # as it was before its files were looked at
        try:
            self.problem = "" if self._bring_from_machine(attempt, folder, most) else "has written no event files"
        except TooMuch:
            self.problem = TOO_MUCH
        except TrainingServiceError as error:
            self.problem = str(error)
            is_final &= not isinstance(error, TemporaryError)
        except OSError as error:
            self.problem = f"could not be copied on the server: {error.strerror or error}"
            return
        if found.is_finished and not self.size:
            try:
                if self._bring_kept(attempt, folder, most):
                    self.problem, is_final = "", True
            except TooMuch:
                self.problem = TOO_MUCH
        if is_final:
            self.is_whole = True
            self.close()

    def close(self) -> None:
        """Let go of the machine."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _bring_from_machine(self, attempt: Attempt, folder: Path, most: int) -> bool:
        """Whether there are any."""
        if self._source is None:
            self._source = TrialOutputFolder(attempt)
        try:
            files = event_files({file.name: file for file in self._source.list_files().files})
            for name, file in files.items():
                path = run_path(folder, name)
                if path is not None:
                    self._bring_file(self._source, file, path, most)
        except TrainingServiceError:
            self.close()  # the next time by a new connection
            raise
        return bool(files)

    def _bring_file(self, source: TrialOutputFolder, file: FoundFile, path: Path, most: int) -> None:
        here = path.stat().st_size if path.exists() and path in self._numbers else 0
        if file.size == here and path in self._numbers:
            return
        while True:
            piece = source.read(file.name, here)
            if self._numbers.setdefault(path, piece.number) != piece.number or piece.size < here:
                self._numbers[path] = piece.number  # another file took its place
                self.size -= here
                here = 0
                path.unlink(missing_ok=True)
                continue
            if not piece.content:
                return
            self._append(path, piece.content, here, most)
            here += len(piece.content)
            if here >= piece.size:
                return

    def _append(self, path: Path, content: bytes, here: int, most: int) -> None:
        if self.size + len(content) > most:
            raise TooMuch
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "ab" if here else "wb") as copy:
            copy.write(content)
        self.size += len(content)

    def _bring_kept(self, attempt: Attempt, folder: Path, most: int) -> bool:
        """From the files that were kept on the server. Whether there are any."""
        kept = {file.name: file for file in TrialFile.objects.filter(attempt=attempt)}
        names = [name for name in kept if is_event_file(name)]
        for name in names:
            path = run_path(folder, name)
            if path is not None:
                with suppress(FileNotFoundError, KeptFileDamaged):
                    self._append(path, content_of(kept[name]), 0, most)
        return bool(names)


def event_files(files: Mapping[str, FoundFile]) -> dict[str, FoundFile]:
    """Those of the folder ``tensorboard``, as NNI has it; where there are none, all."""
    found = {name: file for name, file in files.items() if is_event_file(name)}
    usual = {name: file for name, file in found.items() if PurePosixPath(name).parts[0] == "tensorboard"}
    return usual or found


def empty(logs: Path) -> None:
    """Make the folder anew: what an earlier process has copied may be of files that are others by now."""
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs, mode=0o700)
