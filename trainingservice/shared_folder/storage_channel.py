"""How keepers get their job and report on platforms whose containers share a storage with this server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainingservice.base import ServiceContext
from trainingservice.errors import TemporaryError
from trainingservice.keeper.collected_journals import CollectedJournals, JournalSource
from trainingservice.keeper.keeper_variables import authority_text, keeper_variables
from trainingservice.polling.job_record import Observation
from trainingservice.shared_folder.folder import FolderJournal, SharedFolder
from trainingservice.submit_host.disk import Disk
from trainingservice.trial_job import JobApplicationForm, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus
from trialkeeper import contract

#: Of keepers that call the server, in the folder of a private storage: the token, and the authority to trust.
TOKEN_FILE, CA_FILE = "token", "ca.pem"


def better_known(seen: Observation, told: Observation | None) -> Observation:
    """An end that a platform saw, with what its keeper told of it; ``told``: None where nothing is known of that."""
    if told is None:
        return replace(seen, ended_by_itself=seen.status is TrialJobStatus.SUCCEEDED)
    return replace(told, url=seen.url, machine=seen.machine, platform_state=seen.platform_state,
                   end_time=seen.end_time or told.end_time, start_time=seen.start_time or told.start_time)


class StorageChannel:
    """The storage, and the journals that are collected from it. Any method may be called from any thread."""

    def __init__(self, storage: SharedFolder, context: ServiceContext,
                 journal: Callable[[Path, Disk], JournalSource] = FolderJournal) -> None:
        """``journal``: reads the journal of the attempt in a folder."""
        self.storage = storage
        self._journals = CollectedJournals(
            context.state_folder / "collected", context.relay_urls,
            lambda experiment, name: journal(storage.attempt(experiment, name), storage.disk),
            context.clock)
        self._preparing = threading.Lock()

    def open(self) -> None:
        self._journals.open()

    def close(self) -> None:
        self._journals.close()

    def prepare(self, form: JobApplicationForm, platform: str, urls: tuple[str, ...],
                more: Mapping[str, contract.JobDocument] | None = None, *, collect_too: bool = False,
                path: Sequence[str] = ()) -> tuple[str, str]:
        """Have keeper, job and code on the storage; paths of the keeper and of the attempt's folder in containers.

        With ``urls`` the code comes from the server; without, or with ``collect_too``, it is on the storage, and the
        journal is collected from now on. ``path``: folders in front of the trial's PATH.
        """
        is_collected = not urls or collect_too
        with self._preparing:
            keeper = self.storage.put_keeper()
            folder = self.storage.put_job(form if urls else form.without_checkpoints(), platform,
                                          code_from_server=not is_collected, more=dict(more or {}), path=path)
            if is_collected:
                try:
                    self._journals.expect(form)
                except OSError as error:
                    raise TemporaryError(f"The server cannot write to its own state folder: {error.strerror}. Free "
                                         "disk space there.") from error
        return keeper, self.storage.there(folder)

    def variables(self, form: JobApplicationForm, folder: str, urls: tuple[str, ...]) -> dict[str, str]:
        """The keeper's variables, none of them a secret: the token goes into a file of the attempt's folder.

        Only for a storage that is private. ``folder``: what ``prepare`` said of it.
        """
        variables = keeper_variables(form, folder, urls, token_file=f"{folder}/{TOKEN_FILE}")
        if urls:
            own = self.storage.attempt(form.experiment_id, form.job_name)
            self.storage.write(own / TOKEN_FILE, form.keeper.token)
            if form.keeper.ca_file is not None:
                self.storage.write(own / CA_FILE, authority_text(form.keeper))
                variables[contract.ENV_CA] = f"{folder}/{CA_FILE}"
        return variables

    def end_of(self, job: TrialJobDetail, seen: Observation) -> Observation:
        """What a platform saw of an end, made better by what the keeper left on the storage."""
        return better_known(seen, self.storage.seen_end(job.form.experiment_id, job.id))

    def deliver_order(self, job: TrialJobDetail, order: contract.Order) -> None:
        self.storage.give_orders(job.form.experiment_id, job.id, [order])

    def run_anew(self, job_name: str) -> None:
        """The platform runs the job once more, with another journal; what was left of the old one is not wanted."""
        self._journals.run_anew(job_name)

    def job_ended(self, job_name: str) -> None:
        """Collect what is left of its journal."""
        self._journals.finish(job_name)

    def remove_experiment(self, experiment_id: str) -> None:
        """Raises PermanentError naming a folder that only somebody else may remove."""
        self._journals.forget(experiment_id)
        self.storage.remove_experiment(experiment_id)
