"""Launches an experiment: one way for page, REST and command line."""

import secrets
import socket
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from nniweb.experiments import addresses, code_archives
from nniweb.experiments.clusters import settings_secrets, store_cluster
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.platform_section import PlatformSection, without_secrets
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings
from nniweb.experiments.intents import Refused
from nniweb.experiments.models import Cluster, CodeArchive, Experiment, ExperimentEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.revisions import next_revision
from nniweb.experiments.service_factory import build_service
from nniweb.experiments.visibility import visible_clusters
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import TrialOptions
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.platforms import load_platform


@dataclass(frozen=True)
class UploadedCode:
    """A code archive (tar.gz) that came with the request, already checked and rewritten."""

    path: Path
    sha256: str
    file_count: int


def launch(parsed: ParsedConfig, owner: User, code: UploadedCode | None = None) -> Experiment:
    """Create the experiment after a quick rehearsal. Raises Refused; then nothing was created.

    A platform that is merely away does not refuse: the experiment then waits and says so.
    """
    settings = parsed.settings
    found = _cluster_named(settings, owner)
    platform = load_platform(found.platform if found else _section(settings).platform)
    _may_use(platform, owner)
    _may_run_in_the_server(settings, owner)
    _way_home(platform, settings)
    before = set(Cluster.objects.values_list("pk", flat=True))
    cluster = found or cluster_of_section(_section(settings), owner)
    options = _options(settings, platform)
    try:
        _rehearse(cluster, options)
        archive = _keep_code(platform, options, settings, code)
        return _create(parsed, owner, cluster, options, code, archive)
    except Exception:
        if cluster.pk not in before:
            # made for this experiment alone; unless somebody has begun to use it in the meantime
            with suppress(ProtectedError):
                cluster.delete()
        raise


def _create(parsed: ParsedConfig, owner: User, cluster: Cluster, options: TrialOptions, code: UploadedCode | None,
            archive: CodeArchive | None) -> Experiment:
    settings = parsed.settings
    now = timezone.now()
    with transaction.atomic():
        experiment = Experiment.objects.create(
            name=settings.experiment_name or "experiment", description=settings.description, owner=owner,
            group=_group_of(owner), cluster=cluster, tags=list(settings.tags), search_space=settings.search_space,
            tuner=_algorithm(settings.tuner), assessor=_algorithm(settings.assessor) if settings.assessor else None,
            optimize_mode=settings.optimize_mode,
            seed=settings.seed if settings.seed is not None else secrets.randbelow(2**31),
            trial_command=settings.trial_command, trial_options=without_secrets(options),
            trial_gpu_number=settings.trial_gpu_number,
            code_folder="" if code or settings.trial_code_directory is None else str(settings.trial_code_directory),
            code=archive, trial_concurrency=settings.trial_concurrency, max_trial_number=settings.max_trial_number,
            max_duration=settings.max_experiment_duration, max_trial_duration=settings.max_trial_duration,
            config_text=parsed.original_text, config=resolved_document(settings), notes=list(parsed.notes),
            callback_url=_callback_url(settings), status=ExperimentStatus.INITIALIZED, created_at=now)
        ExperimentEvent.objects.create(experiment=experiment, at=now, kind="launched", actor=owner)
        next_revision(experiment.pk)
    return experiment


def _group_of(owner: User) -> Group | None:
    """The group that shares the owner's experiments, where there is no choice; others can be set afterwards."""
    groups = list(owner.groups.all()[:2])
    return groups[0] if len(groups) == 1 else None


def _algorithm(settings: AlgorithmSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)


# --- the cluster ---------------------------------------------------------------------------


def _cluster_named(settings: ExperimentSettings, owner: User) -> Cluster | None:
    """The cluster the file names; None where it has a platform section instead."""
    if settings.cluster is None:
        return None
    usable = visible_clusters(owner).filter(enabled=True)
    cluster = usable.filter(name=settings.cluster).first()
    if cluster is None:
        known = ", ".join(usable.values_list("name", flat=True))
        raise Refused(f"There is no cluster named {settings.cluster!r} that you may use; there are: "
                      f"{known or 'none'}.", "cluster")
    return cluster


def _section(settings: ExperimentSettings) -> PlatformSection:
    if settings.training_service is None:
        raise Refused("A platform is needed: give trainingService, or cluster.", "trainingService")
    return settings.training_service


def _options(settings: ExperimentSettings, platform: type[TrainingService]) -> TrialOptions:
    if settings.training_service is not None:
        return settings.training_service.options
    return settings.trial_options or platform.options_model()


def cluster_of_section(section: PlatformSection, owner: User) -> Cluster:
    """The owner's cluster with equal settings, or a new private one; on a pinned platform the host's own."""
    platform = load_platform(section.platform)
    host = socket.gethostname() if platform.pinned_to_host else ""
    document = without_secrets(section.settings)
    if platform.pinned_to_host:
        found = Cluster.objects.filter(platform=platform.platform, pinned_host=host, settings=document).first()
        if found is not None and not found.enabled:
            raise Refused(f"The cluster {found.name} is disabled; an administrator can enable it.", "trainingService")
        return found or _make_cluster(section, None, host)
    for cluster in Cluster.objects.filter(platform=platform.platform, is_private=True, owner=owner, enabled=True
                                          ).prefetch_related("metadata"):
        if cluster.settings == document and settings_secrets(cluster, platform) == section.secrets:
            return cluster
    return _make_cluster(section, owner, host)


def _make_cluster(section: PlatformSection, owner: User | None, host: str) -> Cluster:
    base = section.platform if owner is None else f"{owner.username[:50]}-{section.platform}"
    taken = set(Cluster.objects.filter(name__startswith=base).values_list("name", flat=True))
    name = next(name for number in range(1, len(taken) + 2)
                if (name := base if number == 1 else f"{base}-{number}") not in taken)
    try:
        return store_cluster(section, name, owner=owner, is_private=owner is not None, pinned_host=host)
    except IntegrityError:  # somebody made it at the same time
        return cluster_of_section(section, owner) if owner else Cluster.objects.get(name=name)


# --- checks --------------------------------------------------------------------------------


def _may_use(platform: type[TrainingService], owner: User) -> None:
    if not owner.may_change:
        raise Refused("Your role is viewer: you can look, not launch. Ask an administrator.")
    if platform.pinned_to_host and not owner.is_admin:
        raise Refused("Trials on this server's own machine run as the server's user, so only administrators may use "
                      f"the platform {platform.platform!r}.", "trainingService.platform")


def _may_run_in_the_server(settings: ExperimentSettings, owner: User) -> None:
    for section, algorithm in (("tuner", settings.tuner), ("assessor", settings.assessor)):
        if algorithm is not None and algorithm.class_name and not owner.is_admin:
            raise Refused(f"A {section} of your own runs on this server as its user, so only administrators may use "
                          "one; choose a built-in one by its name.", f"{section}.className")


def _way_home(platform: type[TrainingService], settings: ExperimentSettings) -> None:
    if platform.needs_public_url and not addresses.keeper_urls(_callback_url(settings)):
        raise Refused(f"Trials on {platform.platform} must be able to call this server, but only its loopback address "
                      "is known. Set NNIWEB_PUBLIC_URL to an address that their machines can reach, or nniManagerIp "
                      "in the file.", "nniManagerIp")


def _callback_url(settings: ExperimentSettings) -> str:
    from django.conf import settings as django_settings

    address = settings.nni_manager_ip
    if not address:
        return ""
    if address.startswith(("http://", "https://")):
        return address.rstrip("/")
    return f"http://{address}" if ":" in address else f"http://{address}:{django_settings.PORT}"


def _rehearse(cluster: Cluster, options: TrialOptions) -> None:
    try:
        service = build_service(cluster)
        try:
            findings = service.rehearse(quick=True, options=options)
        finally:
            service.clean_up()
    except TemporaryError:
        return  # merely away: the experiment waits and says so
    except TrainingServiceError as error:
        raise Refused(str(error), "trainingService") from None
    blocking = [finding for finding in findings if finding.blocks]
    if blocking:
        raise Refused.for_fields([("trainingService", finding.message) for finding in blocking])


def _keep_code(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings,
               code: UploadedCode | None) -> CodeArchive | None:
    now = timezone.now()
    if code is not None:
        return code_archives.keep_archive(code.path, code.sha256, code.file_count, now)
    copies = platform.ships_code or getattr(options, "snapshot_code", False)
    if not copies or settings.trial_code_directory is None:
        return None
    try:
        return code_archives.keep_folder(settings.trial_code_directory, now)
    except TrainingServiceError as error:
        raise Refused(str(error), "trialCodeDirectory") from None


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for an upload on its way in."""
    from django.conf import settings as django_settings

    return tempfile.TemporaryDirectory(dir=django_settings.DATA_FOLDER)
