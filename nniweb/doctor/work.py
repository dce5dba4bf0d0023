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
        yield well("workers", f"Alive on {', '.join(sorted(hosts))}.")
    elif missing_worker():
        yield wrong("workers", "Experiments are under way and no worker is alive.", HOW_TO_START)
    else:
        yield well("workers", "None is alive, and there is nothing to do for one.")


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
            faults.append(warning(about, absence, f"Where that machine has another name now ({socket.gethostname()}?), "
                                "give it its old name back, or disable the cluster and make a new one."))
        bad = bad or bool(faults)
        yield from faults
    if not bad:
        yield well("clusters", "Those that were tried were well when a worker last saw them.")


def _faults(cluster: Cluster, about: str) -> Iterator[Finding]:
    ask = (f"On its page, \"Rehearse\" tries what a trial needs and says what is missing; docs/platforms/"
           f"{cluster.platform}.md has its settings. If nobody needs it any more, disable it.")
    if cluster.health == Cluster.Health.BAD:
        yield wrong(about, f"It needs a person: {cluster.message}", ask)
    elif cluster.health == Cluster.Health.AWAY:
        yield warning(about, f"It could not be asked: {cluster.message}", f"It is tried again by itself. {ask}")
    for machine in cluster.machines.all():
        if not machine.healthy:
            yield warning(about, f"The machine {machine.name} cannot be used: {machine.message}", ask)


def notifications() -> Iterator[Finding]:
    """Whether notifications can be sent, and which could not."""
    rules = NotificationRule.objects.filter(channel=Channel.EMAIL, enabled=True).count()
    if rules and not settings.MAIL_URL:
        yield warning("mail", f"{rules} rule(s) of people ask for mails, and no mail server is known.",
                      "Set NNIWEB_MAIL_URL (docs/settings.md) and start the server anew.")
