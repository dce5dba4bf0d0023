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


#: Fetches the keeper, in the container. Python 3.8, standard library; told the file to write, and the server's path.
FETCH = """\
import os, sys, time, urllib.error, urllib.request, zipfile
target, path = sys.argv[1:]
handlers = [urllib.request.ProxyHandler({})]
if os.environ.get("NNI_KEEPER_CA"):
    import ssl
    context = ssl.create_default_context(cafile=os.environ["NNI_KEEPER_CA"])
    handlers.append(urllib.request.HTTPSHandler(context=context))
open_url = urllib.request.build_opener(*handlers).open
give_up, pause, said = time.monotonic() + 3600, 1.0, ""
while True:
    for base in os.environ["NNI_KEEPER_URLS"].split(","):
        request = urllib.request.Request(base.rstrip("/") + path)
        request.add_header("Authorization", "Bearer " + os.environ["NNI_KEEPER_TOKEN"])
        try:
            with open_url(request, timeout=60) as answer, open(target, "wb") as file:
                file.write(answer.read(67108864))
            if zipfile.is_zipfile(target):
                sys.exit(0)
            problem = base + " sent something else"
        except urllib.error.HTTPError as error:
            if error.code == 410:
                sys.exit(82)
            problem = "%s answered %d" % (base, error.code)
        except Exception as error:
            problem = "%s: %s" % (base, error)
    if time.monotonic() > give_up:
        sys.exit("The keeper cannot be fetched from the server: " + problem)
    if problem != said:
        print("The keeper cannot be fetched from the server yet: " + problem, file=sys.stderr, flush=True)
    said = problem
    time.sleep(pause)
    pause = min(30.0, pause * 2)
"""
