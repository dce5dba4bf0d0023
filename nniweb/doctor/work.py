"""Who works: workers, clusters and their machines, and notifications that nobody could send. All ask the database."""

import socket
from collections.abc import Iterator

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from nniweb.doctor.findings import Finding, warning, well, wrong
from nniweb.experiments.clusters.worker_presence import HOW_TO_START, absence_of, alive_hosts
from nniweb.experiments.models import Cluster, Experiment, NotificationRule
from nniweb.experiments.models.notification import Channel
from nniweb.observability.readiness import missing_worker


def workers() -> Iterator[Finding]:
    """Whether a worker is alive where there is work for one."""
    hosts = alive_hosts()
    if hosts:
        yield well("workers", f"Workers are alive on {', '.join(sorted(hosts))}.")
    elif missing_worker():
        yield wrong("workers", "Experiments have not ended, but no worker is alive.", HOW_TO_START)
    else:
        yield well("workers", "No worker is alive, and there is no work for one.")


def clusters() -> Iterator[Finding]:
    """As a worker last saw them; a rehearsal would ask the platform itself."""
    hosts, bad = alive_hosts(), False
    in_use = Experiment.objects.unfinished().filter(deleted_at=None, cluster=OuterRef("pk"))
    looked_at = Cluster.objects.filter(Q(is_private=False) | Exists(in_use), enabled=True)
    for cluster in looked_at.order_by("name").prefetch_related("machines"):
        about = f"cluster {cluster.name}"
        faults = list(_faults(cluster, about))
        if (hosts or cluster.pinned_host not in ("", socket.gethostname())) and (
                absence := absence_of(cluster, hosts or {socket.gethostname()})):
            faults.append(warning(about, absence, f"If that machine has another name now ({socket.gethostname()}?), "
                                                  "restore its old name, or disable the cluster and create a new one."))
        bad = bad or bool(faults)
        yield from faults
    if not bad:
        yield well("clusters", "All clusters that were used worked when a worker last used them.")


def _faults(cluster: Cluster, about: str) -> Iterator[Finding]:
    ask = ("\"Test cluster\" on the cluster's page checks what a trial needs and shows what is missing. "
           f"docs/platforms/{cluster.platform}.md describes the settings. If the cluster is no longer needed, disable "
           "it.")
    if cluster.health == Cluster.Health.BAD:
        yield wrong(about, f"The cluster cannot be used until somebody solves this: {cluster.message}", ask)
    elif cluster.health == Cluster.Health.AWAY:
        yield warning(about, "The cluster could not be reached: "
                             f"{cluster.message}", f"The worker tries again automatically. {ask}")
    for machine in cluster.machines.all():
        if not machine.healthy:
            yield warning(about, f"The machine {machine.name} cannot be used: {machine.message}", ask)


def notifications() -> Iterator[Finding]:
    """Whether notifications can be sent, and which could not."""
    rules = NotificationRule.objects.filter(channel=Channel.EMAIL, enabled=True).count()
    if rules and not settings.MAIL_URL:
        yield warning("mail", f"{rules} notification rule(s) send mail, but no mail server is configured.",
                      "Set NNIWEB_MAIL_URL (docs/settings.md) and restart the server.")
