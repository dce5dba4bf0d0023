"""What a trial has written on its machine, asked for by whoever looks at it: each step is bounded in time.

The web process makes a service object for it, as it does for a rehearsal. It says nothing of any trial's state, and
the worker, which may be elsewhere, is not needed for it.
"""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TypeVar

from pydantic import ValidationError

from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.platform_calls import ask_platform
from nniweb.experiments.clusters.service_factory import service_builder
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.launch.job_forms import first_parameters, job_detail
from nniweb.experiments.models import Attempt
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import CannotOpen
from trainingservice.base import TrainingService
from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError, Unsupported
from trainingservice.files.output_folder import MOST_BYTES, Found, NoSuchOutput, OutputFolder, Piece
from trainingservice.platforms import load_platform

_Result = TypeVar("_Result")


class TrialOutputFolder:
    """The output folder of one attempt. ``close`` ends what was opened for it; use it with ``with``.

    All methods raise NoSuchOutput (it is not there), Unsupported (this server cannot look there, and it is no use to
    try again) and TemporaryError.
    """

    def __init__(self, attempt: Attempt, rank: int | None = None) -> None:
        """Nobody is asked yet. The attempt's trial, experiment and cluster are read.

        ``rank``: the folder of one rank of a trial with several nodes, which has its stdout and its stderr beside files
        that are nobody's to see.
        """
        self._rank = rank
        cluster = attempt.runs_on
        if cluster.pinned_host not in ("", socket.gethostname()):
            raise Unsupported(f"The files are on the machine {cluster.pinned_host}, and this server runs on another "
                              "machine. Use the server that runs there, or name the files in keepFiles in further "
                              "experiments.")
        self._platform = cluster.platform
        try:
            platform = load_platform(cluster.platform)
            self._job = job_detail(attempt, first_parameters([attempt.trial_id]).get(attempt.trial_id), platform)
            self._build: Callable[[], TrainingService] = service_builder(cluster)
        except (CannotOpen, ConfigInvalid, ValidationError, PermanentError) as error:
            raise Unsupported(f"The settings of the cluster {cluster.name} or of the experiment's trials are not valid "
                              f"in this version of the server: {error}") from error
        self._service: TrainingService | None = None
        self._folder: OutputFolder | None = None

    def list_files(self) -> Found:
        return self._ask(lambda: self._opened().list_files())

    def read(self, name: str, offset: int, size: int = MOST_BYTES) -> Piece:
        return self._ask(lambda: self._opened().read(name, offset, size))

    def close(self) -> None:
        """May be repeated, and never raises what a platform says."""
        def call() -> None:
            folder, service = self._folder, self._service
            self._folder = self._service = None
            if folder is not None:
                folder.close()
            if service is not None:
                service.clean_up()

        if self._service is not None:
            with suppress(TrainingServiceError):
                ask_platform(self._platform, call, platform_calls.BRIEF, is_last=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _opened(self) -> OutputFolder:
        if self._folder is None:
            self._service = self._build()
            self._folder = self._service.output_folder(self._job) if self._rank is None \
                else self._service.rank_folder(self._job, self._rank)
        return self._folder

    def _ask(self, call: Callable[[], _Result]) -> _Result:
        try:
            return ask_platform(self._platform, call, platform_calls.BRIEF)
        except NoSuchOutput as error:
            raise NoSuchOutput(struck_out(str(error))) from None
        except TemporaryError as error:
            raise TemporaryError(struck_out(str(error)), error.retry_after) from None
        except TrainingServiceError as error:
            raise Unsupported(struck_out(str(error))) from None
