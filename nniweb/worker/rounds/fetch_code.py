"""A step before slots are filled: code that is named by a Git address is fetched, once, and kept as an archive."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from nniweb.annotation.reading_process import AnnotationsInvalid, RewrittenFiles
from nniweb.experiments.config.search_space.annotated_space import check_space, check_space_for
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.git_fetch import FetchedCode, FetchFailed, FetchLimits, fetch_code
from nniweb.experiments.launch.git_source import GitSource
from nniweb.experiments.launch.stored_options import code_parts_of
from nniweb.experiments.lifecycle.reason_columns import said
from nniweb.experiments.lifecycle.transitions import move_experiment
from nniweb.experiments.models import CodeArchive, Experiment, ExperimentEvent
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import CannotOpen, unseal
from nniweb.storage.elsewhere import StorageFailed
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.constraint_check import check_constraints
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.worker.rounds.cluster_work import ClusterWork
from trainingservice.errors import TrainingServiceError
from trainingservice.reasons import Reason
from trainingservice.secrets_in_use import own_secrets

logger = logging.getLogger(__name__)

#: Seconds before code is fetched again that the storage of files could not take.
STORAGE_PAUSE = 30.0


class _ConstraintsUnusable(Exception):
    """The experiment's constraints do not fit its search space."""


def code_is_there(work: ClusterWork, experiment: Experiment) -> bool:
    """Whether trials can be given their code. Where not, it is on its way, and the experiment says so."""
    if experiment.code_git is None or not experiment.waits_for_code:
        return True
    if experiment.is_finished or experiment.target != ExperimentTarget.RUN:
        return False
    source = GitSource(**{key: experiment.code_git[key] for key in ("url", "ref", "folder")})
    message = Reason("code_fetching", source=str(source))
    if experiment.message != message:
        with work.lease.transaction():
            next_revision(experiment.pk)
            Experiment.objects.filter(pk=experiment.pk).update(**said(message))
        experiment.message = message
    work.fetches.start(experiment, lambda stop: _fetch(work, experiment, source, stop))
    return False


def _fetch(work: ClusterWork, experiment: Experiment, source: GitSource, stop: threading.Event
           ) -> Callable[[], None]:
    """On a thread of its own. Returns what is to be written down."""
    with own_secrets():  # the token is this experiment's alone, and others have rounds on the cluster
        # the same at the next try, so that a worker that was killed leaves nothing behind for good
        scratch = Path(settings.DATA_FOLDER).resolve() / "fetches" / experiment.public_id
        limits = FetchLimits(settings.GIT_MAX_BYTES, settings.GIT_SECONDS, settings.GIT_PRIVATE_ADDRESSES)
        try:
            token = unseal(experiment.code_git_token) if experiment.code_git_token is not None else ""
            fetched = fetch_code(source, token, scratch, limits, stop)
            archive, found = _keep(work, experiment, fetched)
        except _ConstraintsUnusable as unusable:
            said_of_them = str(unusable)
            return lambda: _end(work, experiment, Reason("constraints_unusable", said=said_of_them))
        except AnnotationsInvalid as invalid:
            problems = struck_out(str(invalid))
            return lambda: _end(work, experiment, Reason("annotations_invalid", source=str(source), said=problems))
        except StorageFailed as error:
            logger.warning("experiment %s: its code is fetched again later: %s", experiment.public_id, error)
            stop.wait(STORAGE_PAUSE)
            return lambda: None
        except (FetchFailed, CannotOpen) as error:
            reason = struck_out(str(error))
            return lambda: None if stop.is_set() else _failed(work, experiment, source, reason)
        except Exception as error:
            logger.exception("experiment %s: its code could not be fetched", experiment.public_id)
            reason = struck_out(f"{type(error).__name__}: {error}")
            return lambda: _failed(work, experiment, source, reason)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return lambda: _arrived(work, experiment, source, fetched, archive, found)


def _keep(work: ClusterWork, experiment: Experiment, fetched: FetchedCode) -> tuple[CodeArchive, RewrittenFiles | None]:
    """The archive, and what its annotations say where they count. Raises FetchFailed, AnnotationsInvalid."""
    parts = _folders_of_roles(experiment, fetched)
    try:
        if not experiment.config.get("useAnnotation"):
            return code_archives.keep_folder(fetched.folder, work.now(), parts), None
        archive, found = code_archives.keep_annotated_folder(fetched.folder, work.now(), parts)
        check_space(found, experiment.has_own_tuner)
        if not experiment.has_own_tuner:
            check_space_for(found, experiment.tuner["name"])
            _check_constraints(experiment, found)
        return archive, found
    except TrainingServiceError as error:
        raise FetchFailed(str(error).replace(f"{fetched.folder}/", "").replace(f" {fetched.folder}", "")) from None


def _folders_of_roles(experiment: Experiment, fetched: FetchedCode) -> dict[str, Path]:
    """As ``code_tree`` has them. Raises FetchFailed where the repository does not have one."""
    top = fetched.folder.resolve()
    found = {}
    for part in code_parts_of(experiment):
        found[part.name] = folder = (top / part.folder).resolve()
        if not folder.is_relative_to(top) or not folder.is_dir():
            raise FetchFailed(f"The repository has no folder {part.folder}, which "
                              f"{'.'.join(map(str, part.place))} names.")
    return found


def _check_constraints(experiment: Experiment, found: RewrittenFiles) -> None:
    """Raises _ConstraintsUnusable where they do not fit the search space that the annotations make."""
    if not experiment.constraints:
        return
    is_list = algorithms.find_tuner(experiment.tuner["name"]).takes_a_list
    space = parse_search_space(found.search_space)
    problems = check_constraints(experiment.constraints, space, is_list=is_list).problems
    if problems:
        raise _ConstraintsUnusable("; ".join(
            f"{'all of them' if at is None else experiment.constraints[at]}: {problem}" for at, problem in problems))


def _arrived(work: ClusterWork, experiment: Experiment, source: GitSource, fetched: FetchedCode,
             archive: CodeArchive, found: RewrittenFiles | None) -> None:
    config = {} if found is None else {"config": {**experiment.config, "searchSpace": found.search_space}}
    with work.lease.transaction():
        next_revision(experiment.pk)
        changed = Experiment.objects.filter(pk=experiment.pk, code=None).update(
            code=archive, code_git={**source.document(), "commit": fetched.commit}, code_git_token=None, **config,
            **said(""))
        if changed and found is not None:  # unless somebody has given another one meanwhile
            Experiment.objects.filter(pk=experiment.pk, search_space_version=0).update(search_space=found.search_space)
        if changed:
            ExperimentEvent.objects.create(experiment=experiment, at=work.now(), kind="code fetched",
                                           message=f"{source}, commit {fetched.commit}")


def _failed(work: ClusterWork, experiment: Experiment, source: GitSource, reason: str) -> None:
    _end(work, experiment, Reason("code_not_fetched", source=str(source), said=reason))


def _end(work: ClusterWork, experiment: Experiment, reason: Reason) -> None:
    """The experiment ends; resuming it tries again."""
    with work.lease.transaction():
        now = Experiment.objects.filter(pk=experiment.pk, code=None, deleted_at=None).defer(
            "config", "config_text").first()
        if now is not None and now.target == ExperimentTarget.RUN:
            move_experiment(now, ExperimentStatus.ERROR, work.now(), message=reason)
