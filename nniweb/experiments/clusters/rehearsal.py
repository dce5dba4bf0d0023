"""Rehearsals: does a cluster have all that a trial needs? Asked before launches, by REST and in the admin."""

import socket
from collections.abc import Callable
from dataclasses import asdict, replace

from django.utils import timezone
from pydantic import ValidationError

from nniweb.experiments.access import audit
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.draft import Draft
from nniweb.experiments.clusters.platform_calls import ask_new_service
from nniweb.experiments.clusters.service_factory import service_builder
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.models import Cluster, User
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import CannotOpen
from nniweb.experiments.sql.exact_text import printable
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import TrialOptions
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.platforms import load_platform


class OnAnotherHost(Exception):
    """The cluster is another machine; only a server that runs there can rehearse it."""


def rehearse(cluster: Cluster, user: User) -> list[RehearsalFinding]:
    """A full rehearsal from this process; may take a minute. What goes wrong in it is a finding as well.

    It is made for trials (image, GPUs) of the last experiment on the cluster that the user may see, and kept for
    whoever looks at the cluster later. Raises OnAnotherHost.
    """
    _refuse_another_host(cluster)
    audit.record("cluster.rehearse", cluster, user)
    findings = _findings(cluster, cluster.platform, user, lambda: service_builder(cluster))
    Cluster.objects.filter(pk=cluster.pk).update(
        rehearsal=[asdict(finding) for finding in findings], rehearsed_at=timezone.now())
    return findings


def rehearse_draft(draft: Draft, user: User) -> list[RehearsalFinding]:
    """As ``rehearse``, with settings that are not stored; nothing is kept. Raises OnAnotherHost."""
    if draft.stored is not None:
        _refuse_another_host(draft.stored)
    audit.record("cluster.rehearse", draft.stored, user, platform=draft.section.platform, saved=False)
    with draft.in_use():
        return _findings(draft.stored, draft.section.platform, user, draft.service_builder)


def _refuse_another_host(cluster: Cluster) -> None:
    if cluster.pinned_host not in ("", socket.gethostname()):
        raise OnAnotherHost(f"This cluster is the machine {cluster.pinned_host}, and this server runs on another "
                            f"machine. Test it on the server that runs on {cluster.pinned_host}.")


def _findings(cluster: Cluster | None, platform: str, user: User, builder: Callable[[], Callable[[], TrainingService]]
              ) -> list[RehearsalFinding]:
    """``cluster``: None where there is none yet; ``builder`` gives what builds the service."""
    options = _last_options(cluster, user) if cluster is not None else None

    def question(service: TrainingService) -> list[RehearsalFinding]:
        settings = service.settings
        return [finding if finding.field else
                replace(finding, field=settings.field_of_check(finding.check, finding.machine))
                for finding in service.rehearse(options=options)]

    try:
        found = ask_new_service(platform, builder(), question, platform_calls.PATIENT)
    except TemporaryError as error:
        found = [RehearsalFinding("connection", False, str(error), temporary=True)]
    except (TrainingServiceError, CannotOpen, ConfigInvalid) as error:
        found = [RehearsalFinding("settings", False, str(error))]
    # a platform may answer a refused log-in with what it was sent
    return [replace(finding, message=printable(struck_out(finding.message))) for finding in found]


def _last_options(cluster: Cluster, user: User) -> TrialOptions | None:
    last = visible_experiments(user).filter(cluster=cluster).order_by("-pk").first()
    if last is None:
        return None
    model = load_platform(cluster.platform).options_model
    try:
        return model.model_validate(last.trial_options).with_gpus(last.trial_gpu_number)
    except ValidationError:  # of a version that had other fields
        return None
