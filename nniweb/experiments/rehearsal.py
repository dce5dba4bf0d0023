"""Rehearsals: does a cluster have all that a trial needs? Asked before launches, by REST and in the admin."""

import socket

from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.models import Cluster
from nniweb.experiments.sealing import CannotOpen
from nniweb.experiments.service_factory import build_service
from trainingservice.base import RehearsalFinding
from trainingservice.errors import TemporaryError, TrainingServiceError


class OnAnotherHost(Exception):
    """The cluster is another machine; only a server that runs there can rehearse it."""


def rehearse(cluster: Cluster) -> list[RehearsalFinding]:
    """A full rehearsal from this process; may take half a minute. What goes wrong in it is a finding as well.

    Raises OnAnotherHost.
    """
    if cluster.pinned_host not in ("", socket.gethostname()):
        raise OnAnotherHost(f"This cluster is the machine {cluster.pinned_host}; ask the server that runs there.")
    try:
        service = build_service(cluster)
        try:
            return service.rehearse()
        finally:
            service.clean_up()
    except TemporaryError as error:
        return [RehearsalFinding("connection", False, str(error), temporary=True)]
    except (TrainingServiceError, CannotOpen, ConfigInvalid) as error:
        return [RehearsalFinding("settings", False, str(error))]
