"""What a keeper fetches and sends besides reports: its job, its code, files to keep. Blocking."""

import contextlib
import logging
import secrets
from pathlib import Path, PurePosixPath

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db.models import Count, Sum
from django.utils import timezone

from nniweb.experiments.checkpoints.deleted_meanwhile import ExperimentDeleted, unless_deleted
from nniweb.experiments.downloads.kept_files import hash_of_content
from nniweb.experiments.ingest.one_report import authenticate
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.job_forms import application_form, first_parameters
from nniweb.experiments.models import Attempt, Experiment, Trial, TrialFile
from nniweb.experiments.retention.removal import remove_file
from nniweb.experiments.sql.idle_connections import give_connection_back
from nniweb.experiments.sql.selected_rows import select
from nniweb.storage.elsewhere import StorageFailed
from trainingservice.platforms import load_platform
from trainingservice.receiver.report_reading import RefusedReport
from trainingservice.trial_job import KeeperAccess, job_document
from trialkeeper import contract

logger = logging.getLogger(__name__)

#: What is kept of one attempt: more than a keeper of ours ever sends, which others might.
MOST_FILES, MOST_BYTES = 200, 512 * 1024 * 1024


def job_document_of(job_name: str, token_hash: str) -> contract.JobDocument:
    """What to run, for a keeper whose platform could not hand it over. Raises RefusedReport."""
    try:
        attempt = attempt_of(job_name, token_hash)
        if attempt.stage == Attempt.Stage.ENDED:
            raise RefusedReport(410, contract.ERROR_GONE, "This attempt has ended.")
        experiment = attempt.trial.experiment
        service = load_platform(attempt.runs_on.platform)
        first = first_parameters([attempt.trial_id]).get(attempt.trial_id)
        form = application_form(attempt, first, service, KeeperAccess(urls=(), token=""))
        code: contract.CodeDocument | None = None
        runs_in_folder = service.shares_code_folder and form.variant is None and not form.options.copies_code()
        if experiment.code_folder and runs_in_folder:
            code = {"folder": experiment.code_folder}
        elif experiment.code is not None:
            code = {"sha256": experiment.code.sha256}
        gpus = None if attempt.gpu_indices is None else tuple(attempt.gpu_indices)
        return job_document(form, platform=service.platform, code=code, gpu_indices=gpus)
    finally:
        give_connection_back()


def code_of(experiment_id: str, token_hash: str) -> tuple[Path, str]:
    """Path and hash of the experiment's code archive. Raises RefusedReport."""
    try:
        # newest first: a token usually belongs to a trial that is starting now
        for attempt in Attempt.objects.filter(trial__experiment__public_id=experiment_id).exclude(
                stage=Attempt.Stage.ENDED).select_related("trial__experiment__code").order_by("-pk"):
            if token_hash in attempt.token_hashes:
                archive = attempt.trial.experiment.code
                if archive is None:
                    raise RefusedReport(404, "unknown", "This experiment has no code archive.")
                try:
                    return code_archives.local_path(archive), archive.sha256
                except StorageFailed:
                    raise
                except OSError as error:  # the storage elsewhere has lost or damaged it
                    logger.error("the code of experiment %s cannot be handed out: %s", experiment_id, error)
                    raise RefusedReport(404, "unknown", "The code archive of this experiment is missing or damaged in "
                                                        "the server's storage.") from None
        raise RefusedReport(401, contract.ERROR_TOKEN, "This token is not valid for this experiment's code.")
    finally:
        give_connection_back()


def may_start(job_name: str, token_hash: str) -> None:
    """Whether a keeper of this attempt may begin, asked before it is handed out. Raises RefusedReport."""
    try:
        if _opened(job_name, token_hash).stage == Attempt.Stage.ENDED:
            raise RefusedReport(410, contract.ERROR_GONE, "This attempt has ended.")
    finally:
        give_connection_back()


def may_report(job_name: str, token_hash: str) -> None:
    """Whether this token opens this job, asked before a large body is read. Raises RefusedReport."""
    try:
        _opened(job_name, token_hash)
    finally:
        give_connection_back()


def keep_file(job_name: str, token_hash: str, name: str, body: bytes) -> None:
    """Store one file of a trial; sending it again replaces it. Raises RefusedReport."""
    try:
        attempt = attempt_of(job_name, token_hash)
        parts = PurePosixPath(name).parts
        if not parts or len(name) > 1000 or name.startswith("/") or ".." in parts or "\x00" in name:
            raise RefusedReport(400, contract.ERROR_UNREADABLE, "The name must be a path inside the folder.")
        others = TrialFile.objects.filter(attempt=attempt).exclude(name=name).aggregate(n=Count("pk"), size=Sum("size"))
        if others["n"] >= MOST_FILES or (others["size"] or 0) + len(body) > MOST_BYTES:
            raise RefusedReport(413, contract.ERROR_TOO_LARGE,
                                f"At most {MOST_FILES} files and {MOST_BYTES // 2**20} MB are kept for one trial.")
        # the name never becomes a path of ours: the row holds it
        path = f"trials/{attempt.job_name}/{secrets.token_hex(8)}"
        with unless_deleted(attempt.trial.experiment_id, lambda: _remove(attempt, path)):
            _store(attempt, name, path, body)
    except ExperimentDeleted:
        raise deleted_meanwhile() from None
    except OSError as error:
        logger.warning("a file of job %s cannot be stored at the moment: %s", job_name, error)
        raise RefusedReport(503, contract.ERROR_BUSY, "The server cannot store files at the moment.") from None
    finally:
        give_connection_back()


def _store(attempt: Attempt, name: str, path: str, body: bytes) -> None:
    """Raises what the storage and the database raise; then nothing is left at ``path``, as far as the storage removes
    it: a file without a row would never be removed.
    """
    try:
        default_storage.save(path, ContentFile(body))
        old = TrialFile.objects.filter(attempt=attempt, name=name).first()
        if old is not None:  # before its row is another's
            default_storage.delete(old.storage_path)
        TrialFile.objects.update_or_create(attempt=attempt, name=name, defaults={
            "size": len(body), "sha256": hash_of_content(body), "storage_path": path})
    except Exception:
        with contextlib.suppress(OSError):
            default_storage.delete(path)
        raise


def _remove(attempt: Attempt, path: str) -> None:
    """What ``_store`` has stored."""
    remove_file(path)
    TrialFile.objects.filter(attempt=attempt, storage_path=path).delete()


def deleted_meanwhile() -> RefusedReport:
    """The answer to a keeper whose experiment was deleted while it sent something."""
    return RefusedReport(410, contract.ERROR_GONE, "The experiment of this trial was deleted.")


def _opened(job_name: str, token_hash: str) -> Attempt:
    """The attempt that the token opens: what tells so, and no more. Asked before each large body. Raises RefusedReport.
    """
    return _authenticated(_of_job(("id", "token_hashes", "end_received_at", "stage"), job_name), token_hash)


def saving_attempt(job_name: str, token_hash: str) -> Attempt:
    """The attempt that the token opens, with what calls about checkpoints need to know of it, of its trial and of its
    experiment: a gigabyte has a hundred of them. Raises RefusedReport.
    """
    attempt = _authenticated(_of_job(("id", "job_name", "number", "journal_id", "token_hashes", "end_received_at",
                                      "stage", "trial"), job_name), token_hash)
    try:
        [attempt.trial] = select(Trial, ("id", "experiment"), "WHERE id = %s", [attempt.trial_id])
        [attempt.trial.experiment] = select(Experiment, ("id", "public_id", "config", "owner", "group"),
                                            "WHERE id = %s", [attempt.trial.experiment_id])
    except ValueError:  # there is none any more
        raise deleted_meanwhile() from None
    return attempt


def attempt_of(job_name: str, token_hash: str) -> Attempt:
    """The attempt that the token opens, with its trial and experiment. Raises RefusedReport."""
    attempt = Attempt.objects.select_related(
        "cluster", "trial__experiment__cluster", "trial__experiment__code").filter(job_name=job_name).first()
    return _authenticated(attempt, token_hash)


def _of_job(names: tuple[str, ...], job_name: str) -> Attempt | None:
    return next(iter(select(Attempt, names, "WHERE job_name = %s", [job_name])), None)


def _authenticated(attempt: Attempt | None, token_hash: str) -> Attempt:
    if attempt is None:
        raise RefusedReport(404, "unknown", "No trial job of this name is known here.")
    authenticate(attempt, token_hash, timezone.now())
    return attempt
