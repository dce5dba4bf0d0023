"""The cluster of a launch: the one that the file names, or one for the platform that it describes."""

import shutil
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from django.db import IntegrityError

from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.clusters import platform_calls
from nniweb.experiments.clusters.editing import settings_secrets, store_cluster
from nniweb.experiments.clusters.platform_calls import ask_new_service
from nniweb.experiments.clusters.service_factory import service_builder, state_folder
from nniweb.experiments.clusters.worker_presence import is_leased
from nniweb.experiments.config.platform_section import PlatformSection
from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Cluster, User
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.sql.exact_text import printable
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import TrialOptions, without_secrets
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.platforms import load_platform
from trainingservice.reasons import PLATFORM, Reason, arguments_of, code_of, each_text, with_texts

#: So many findings are said of one launch.
MOST_TOLD = 10


def cluster_named(settings: ExperimentSettings, owner: User) -> Cluster | None:
    """The cluster the file names; None where it has a platform section instead."""
    if settings.cluster is None:
        return None
    usable = visible_clusters(owner).filter(enabled=True)
    cluster = usable.filter(name=settings.cluster).first()
    if cluster is None:
        known = list(usable.values_list("name", flat=True))
        raise Refused(Reason("cluster_unknown", cluster=settings.cluster, known=known), "cluster")
    return cluster


def section_of(settings: ExperimentSettings) -> PlatformSection:
    """The platform section of the file. Raises Refused where it has none."""
    if settings.training_service is None:
        raise Refused("A platform is required. Give trainingService or cluster.", "trainingService")
    return settings.training_service


def options_of(settings: ExperimentSettings, platform: type[TrainingService]) -> TrialOptions:
    """The trials' options on this platform; defaults where the file has none."""
    if settings.training_service is not None:
        return settings.training_service.options
    return settings.trial_options or platform.options_model()


def cluster_of_section(section: PlatformSection, owner: User) -> Cluster:
    """The owner's cluster with equal settings, else a draft of a private one; on a pinned platform the host's own."""
    platform = load_platform(section.platform)
    host = socket.gethostname() if platform.pinned_to_host else ""
    document = without_secrets(section.settings)
    if platform.pinned_to_host:
        found = Cluster.objects.filter(platform=platform.platform, pinned_host=host, settings=document).first()
        if found is not None and not found.enabled:
            raise Refused(Reason("cluster_disabled", cluster=found.name), "trainingService")
        return found or Cluster(platform=platform.platform, settings=document, pinned_host=host)
    for cluster in Cluster.objects.filter(platform=platform.platform, is_private=True, owner=owner, enabled=True
                                          ).prefetch_related("metadata"):
        if cluster.settings == document and settings_secrets(cluster, platform) == section.secrets:
            return cluster
    return Cluster(platform=platform.platform, settings=document, owner=owner, is_private=True)


def stored_cluster(draft: Cluster, section: PlatformSection | None, owner: User) -> Cluster:
    """The launch's cluster; a draft is stored now, unless somebody else has stored an equal one in the meantime."""
    if draft.pk is not None or section is None:
        return draft
    base = f"{owner.username[:50]}-{section.platform}" if draft.is_private else section.platform
    taken = set(Cluster.objects.filter(name__startswith=base).values_list("name", flat=True))
    name = next(name for number in range(1, len(taken) + 2)
                if (name := base if number == 1 else f"{base}-{number}") not in taken)
    try:
        return store_cluster(section, name, owner=draft.owner, is_private=draft.is_private,
                             pinned_host=draft.pinned_host)
    except IntegrityError:
        return stored_cluster(cluster_of_section(section, owner), section, owner)


def rehearse_cluster(cluster: Cluster, section: PlatformSection | None, options: TrialOptions,
                     settings: ExperimentSettings, code: Path | None) -> list[RehearsalFinding]:
    """Findings of a quick rehearsal, and what the platform says of the trials' command. Raises Refused for those that
    block, and where running trials shall be given further parameters and cannot. ``code``: the folder with the code,
    None where it comes later.
    """
    is_draft = cluster.pk is None
    share = settings.shared_storage.remote_mount_point if settings.shared_storage is not None else ""
    options_of_rehearsal = options.with_gpus(settings.trial_gpu_number)

    def question(service: TrainingService) -> tuple[list[tuple[str, str]], list[RehearsalFinding]]:
        lacking = []
        if share and (problem := options.lacks_share(share, service.settings)):
            lacking.append(("sharedStorage", problem))
        if settings.multi_phase and not service.is_multi_phase_job_supported:
            lacking.append(("multiPhase", Reason("one_set_only", platform=service.platform)))
        if lacking:
            return lacking, []
        findings = service.rehearse(quick=True, options=options_of_rehearsal)
        if not any(finding.blocks for finding in findings):
            findings = findings + service.check_command(settings.trial_command, code, settings.environment, options)
        return [], findings

    try:
        build = service_builder(cluster, replacing=section.secrets if section and is_draft else None)
        lacking, findings = ask_new_service(cluster.platform, build, question, platform_calls.BRIEF)
        if lacking:
            raise Refused.for_fields(lacking)
    except TemporaryError as error:  # merely away: the experiment waits and says so
        return [RehearsalFinding("connection", False, with_texts(error.reason, struck_out), temporary=True)]
    except TrainingServiceError as error:
        raise Refused(with_texts(error.reason, struck_out), "trainingService") from None
    finally:
        if is_draft:
            shutil.rmtree(state_folder(cluster), ignore_errors=True)
    # a platform may answer a refused log-in with what it was sent
    findings = [replace(finding, message=with_texts(finding.message, struck_out)) for finding in findings]
    blocking = [finding for finding in findings if finding.blocks]
    if blocking:
        raise Refused.for_fields([("trainingService", finding.message) for finding in blocking])
    return findings


def findings_in_words(findings: Sequence[RehearsalFinding]) -> list[str]:
    """What the check before a launch found amiss, for whoever launches: a few sentences."""
    amiss = [str(finding.message) if finding.check == "python" else f"The check before the launch: {finding.message}"
             for finding in findings if not finding.ok]
    more = [f"The check found {len(amiss) - MOST_TOLD} more; test the cluster to see all."] \
        if len(amiss) > MOST_TOLD else []
    return [*amiss[:MOST_TOLD], *more]


def tell_of_unreachable(cluster: Cluster, findings: Sequence[RehearsalFinding]) -> None:
    """Write into a cluster's row that nothing of it could be reached, unless a worker drives it and knows better."""
    asked = [finding for finding in findings if finding.check == "connection"]
    if not asked or any(finding.ok for finding in asked) or any(finding.check == "machines" for finding in findings) \
            or is_leased(cluster):
        return
    message = asked[0].message
    Cluster.objects.filter(pk=cluster.pk).update(
        health=Cluster.Health.AWAY, message=printable(message), reason=code_of(message, PLATFORM),
        reason_arguments=each_text(arguments_of(message), printable))
