"""Launches an experiment: one way for page, REST and command line."""

import secrets
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from nniweb.experiments import addresses, code_archives
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.platform_section import PlatformSection, parse_stored_section, without_secrets
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings
from nniweb.experiments.intents import Refused
from nniweb.experiments.models import Cluster, ClusterMetadata, CodeArchive, Experiment, ExperimentEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.revisions import next_revision
from nniweb.experiments.sealing import seal, unseal
from nniweb.experiments.service_factory import build_service
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
    cluster, options = _cluster_for(settings, owner)
    platform = load_platform(cluster.platform)
    _may_use(platform, owner)
    _way_home(platform, settings)
    _rehearse(cluster, options)
    archive = _keep_code(platform, options, settings, code)
    now = timezone.now()
    with transaction.atomic():
        experiment = Experiment.objects.create(
            name=settings.experiment_name or "experiment", description=settings.description, owner=owner,
            cluster=cluster, tags=list(settings.tags), search_space=settings.search_space,
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


def _algorithm(settings: AlgorithmSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)


# --- the cluster ---------------------------------------------------------------------------


def _cluster_for(settings: ExperimentSettings, owner: User) -> tuple[Cluster, TrialOptions]:
    if settings.cluster is not None:
        cluster = Cluster.objects.filter(name=settings.cluster, enabled=True).first()
        if cluster is None:
            known = ", ".join(Cluster.objects.filter(enabled=True, is_private=False).values_list("name", flat=True))
            raise Refused(f"There is no cluster named {settings.cluster!r}; there are: {known or 'none'}.", "cluster")
        if cluster.is_private and cluster.owner_id != owner.pk and not owner.is_admin:
            raise Refused(f"The cluster {settings.cluster!r} belongs to somebody else.", "cluster")
        return cluster, settings.trial_options or load_platform(cluster.platform).options_model()
    section = settings.training_service
    if section is None:
        raise Refused("A platform is needed: give trainingService, or cluster.", "trainingService")
    return cluster_of_section(section, owner), section.options


def cluster_of_section(section: PlatformSection, owner: User) -> Cluster:
    """The owner's cluster with equal settings, or a new private one; on a pinned platform the host's own."""
    platform = load_platform(section.platform)
    host = socket.gethostname() if platform.pinned_to_host else ""
    document = without_secrets(section.settings)
    if platform.pinned_to_host:
        found = Cluster.objects.filter(platform=platform.platform, pinned_host=host, settings=document).first()
        return found or _make_cluster(platform, document, {}, owner=None, host=host)
    for cluster in Cluster.objects.filter(platform=platform.platform, is_private=True, owner=owner, enabled=True
                                          ).prefetch_related("metadata"):
        if cluster.settings == document and _settings_secrets(cluster, platform) == section.secrets:
            return cluster
    return _make_cluster(platform, document, section.secrets, owner=owner, host=host)


def _settings_secrets(cluster: Cluster, platform: type[TrainingService]) -> dict[str, str]:
    return {row.key: unseal(row.sealed_value) for row in cluster.metadata.all()
            if row.sealed_value is not None and row.key not in platform.metadata_keys}


def _make_cluster(platform: type[TrainingService], document: dict[str, Any], hidden: dict[str, str], *,
                  owner: User | None, host: str) -> Cluster:
    base = platform.platform if owner is None else f"{owner.username}-{platform.platform}"
    taken = set(Cluster.objects.filter(name__startswith=base).values_list("name", flat=True))
    name = next(name for number in range(1, len(taken) + 2)
                if (name := base if number == 1 else f"{base}-{number}") not in taken)
    try:
        with transaction.atomic():
            cluster = Cluster.objects.create(name=name, platform=platform.platform, settings=document, owner=owner,
                                             is_private=owner is not None, pinned_host=host)
            ClusterMetadata.objects.bulk_create(
                ClusterMetadata(cluster=cluster, key=path, sealed_value=seal(secret))
                for path, secret in hidden.items())
    except IntegrityError:  # somebody made it at the same time
        section = parse_stored_section({"platform": platform.platform, **document}, hidden)
        return cluster_of_section(section, owner) if owner else Cluster.objects.get(name=name)
    return cluster


# --- checks --------------------------------------------------------------------------------


def _may_use(platform: type[TrainingService], owner: User) -> None:
    if not owner.may_change:
        raise Refused("Your role is viewer: you can look, not launch. Ask an administrator.")
    if platform.pinned_to_host and not owner.is_admin:
        raise Refused("Trials on this server's own machine run as the server's user, so only administrators may use "
                      f"the platform {platform.platform!r}.", "trainingService.platform")


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
