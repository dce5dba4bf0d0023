"""Rehearsals: does a cluster have all that a trial needs? Asked before launches, by REST and in the admin."""

import socket
from dataclasses import asdict, replace

from django.utils import timezone
from pydantic import ValidationError

from nniweb.experiments.access import audit
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.platform_calls import ask_new_service
from nniweb.experiments.clusters.service_factory import service_builder
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.models import Cluster, User
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import CannotOpen
from nniweb.experiments.sql.exact_text import printable
from trainingservice.base import RehearsalFinding
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
    if cluster.pinned_host not in ("", socket.gethostname()):
        raise OnAnotherHost(f"This cluster is the machine {cluster.pinned_host}, and this server runs on another "
                            f"machine. Rehearse it on the server that runs on {cluster.pinned_host}.")
    audit.record("cluster.rehearse", cluster, user)
    # a platform may answer a refused log-in with what it was sent
    findings = [replace(finding, message=printable(struck_out(finding.message)))
                for finding in _findings(cluster, user)]
    Cluster.objects.filter(pk=cluster.pk).update(
        rehearsal=[asdict(finding) for finding in findings], rehearsed_at=timezone.now())
    return findings


def _findings(cluster: Cluster, user: User) -> list[RehearsalFinding]:
    try:
        build = service_builder(cluster)
        options = _last_options(cluster, user)
        return ask_new_service(cluster.platform, build, lambda service: service.rehearse(options=options),
                               platform_calls.PATIENT)
    except TemporaryError as error:
        return [RehearsalFinding("connection", False, str(error), temporary=True)]
    except (TrainingServiceError, CannotOpen, ConfigInvalid) as error:
        return [RehearsalFinding("settings", False, str(error))]


def _last_options(cluster: Cluster, user: User) -> TrialOptions | None:
    last = visible_experiments(user).filter(cluster=cluster).order_by("-pk").first()
    if last is None:
        return None
    model = load_platform(cluster.platform).options_model
    try:
        return model.model_validate(last.trial_options).with_gpus(last.trial_gpu_number)
    except ValidationError:  # of a version that had other fields
        return None
