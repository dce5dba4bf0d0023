"""Jobs that share no storage with this server: keeper, job and code come from the server, and reports go there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainingservice.base import ServiceContext
from trainingservice.code.code_archive import require_archive
from trainingservice.errors import PermanentError, Unsupported
from trainingservice.files.output_folder import OutputFolder
from trainingservice.keeper.keeper_exit import observed_exit
from trainingservice.polling.job_record import Observation
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.shared_folder.storage_channel import StorageChannel, better_known
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trialkeeper import contract

#: What else a job needs, and what to write.
NEEDS_STORAGE = ("give a storage of the cluster that is mounted on this server too: storageConfigName, "
                 "localStorageMountPoint and containerStorageMountPoint")


class ServerChannel(StorageChannel):
    """What the other channel does with a storage. Its folder is this server's own: it holds tombstones alone."""

    def __init__(self, storage: SharedFolder, context: ServiceContext) -> None:
        super().__init__(storage, context)
        self._ends: dict[str, Observation] = {}

    def heard(self, job_name: str, entries: Iterable[contract.Entry]) -> None:
        """What a job's keeper has told the host, which says more of an end than the container's exit code."""
        for entry in entries:
            if entry["type"] == contract.ENDED:
                self._ends[job_name] = observed_exit(entry)

    def end_of(self, job: TrialJobDetail, seen: Observation) -> Observation:
        return better_known(seen, self._ends.get(job.id))

    def job_ended(self, job_name: str) -> None:
        super().job_ended(job_name)
        self._ends.pop(job_name, None)

    def prepare(self, form: JobApplicationForm, platform: str, urls: tuple[str, ...],
                more: Mapping[str, contract.JobDocument] | None = None, *, collect_too: bool = False,
                path: Sequence[str] = ()) -> tuple[str, str]:
        """No paths: the keeper is fetched, and chooses its folder. Raises PermanentError where it has no way."""
        if not urls:
            raise PermanentError("This job has no way to its code: the server has no address that the cluster can "
                                 f"call, and shares no storage with it. Set NNIWEB_PUBLIC_URL or nniManagerIp, or "
                                 f"{NEEDS_STORAGE}.")
        if more:
            raise PermanentError(f"Further task roles get their commands through a storage: {NEEDS_STORAGE}.")
        require_archive(form.code)
        return "", ""

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        raise Unsupported("The platform has no way to the keeper of a job of OpenPAI without a storage.")


def no_output_folder() -> OutputFolder:
    """Raises Unsupported."""
    raise Unsupported("The job shares no storage with this server, so that its files come through keepFiles alone; or "
                      f"{NEEDS_STORAGE}.")
