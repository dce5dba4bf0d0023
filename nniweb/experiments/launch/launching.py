"""Checks and launches experiments: one way for page, REST and command line."""

import secrets
import shutil
import socket
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils import timezone

from nniweb.experiments.access import audit
from nniweb.experiments.access.quotas import why_no_experiment_more, why_not_so_many_gpus
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.clusters import addresses, platform_calls
from nniweb.experiments.clusters.editing import settings_secrets, store_cluster
from nniweb.experiments.clusters.platform_calls import ask_new_service
from nniweb.experiments.clusters.service_factory import service_builder, state_folder
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.platform_section import PlatformSection, parse_stored_section, without_secrets
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.checkpoint_folders import check_that_trials_share_a_folder, with_checkpoint_folder
from nniweb.experiments.launch.git_source import GitSource
from nniweb.experiments.models import Cluster, CodeArchive, Experiment, ExperimentEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.secrets.masking import struck_out
from nniweb.experiments.secrets.sealing import seal
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.code.code_archive import code_entries
from trainingservice.errors import TemporaryError, TrainingServiceError
from trainingservice.platforms import load_platform
from trainingservice.reasons import Reason, with_texts


@dataclass(frozen=True)
class UploadedCode:
    """A code archive (tar.gz) that came with the request, already checked and rewritten."""

    path: Path
    sha256: str
    file_count: int
    #: Of the files, before packing.
    bytes: int


@dataclass(frozen=True)
class GitCode:
    """Code that the worker fetches after the launch; ``token`` opens it, where it is not public."""

    source: GitSource
    token: str = field(default="", repr=False)


#: Code that does not lie in a folder on this server.
BroughtCode = UploadedCode | GitCode


@dataclass(frozen=True)
class CodeSize:
    """What is packed for the trials. Folders that trials run in themselves are not packed."""

    file_count: int
    #: Of the files, before packing.
    bytes: int


@dataclass(frozen=True)
class CheckedLaunch:
    """A launch in which nothing was found that forbids it. Nothing was created."""

    platform: type[TrainingService]
    #: Stored already, or a draft that the launch will store.
    cluster: Cluster
    section: PlatformSection | None
    options: TrialOptions
    #: Of the quick rehearsal; good ones too.
    findings: list[RehearsalFinding]
    #: None where no code is packed: then trials run in the folder itself.
    code_size: CodeSize | None
    #: The repository that the code would be fetched from, in words.
    code_from: str | None = None

    @property
    def cluster_is_new(self) -> bool:
        return self.cluster.pk is None


def check(parsed: ParsedConfig, owner: User, code: BroughtCode | None = None) -> CheckedLaunch:
    """Everything that a launch checks, a quick rehearsal included; creates nothing. Raises Refused.

    A platform that is merely away does not refuse: the experiment would wait and say so.
    """
    settings = parsed.settings
    found = _cluster_named(settings, owner)
    platform = load_platform(found.platform if found else _section(settings).platform)
    options = _options(settings, platform)
    may_use(platform, options, owner)
    with transaction.atomic():
        _check_quotas(options, settings, owner)
    _may_run_in_the_server(settings, owner)
    _way_home(platform, settings, found)
    _way_for_code(settings, found, code)
    section = None if found else _section(settings)
    if section is not None and (problems := why_not_here(owner, platform, section.settings)):
        raise Refused.for_fields(problems)
    cluster = found or cluster_of_section(_section(settings), owner)
    check_that_trials_share_a_folder(settings, platform, cluster, options)
    share = settings.shared_storage.remote_mount_point if settings.shared_storage is not None else ""
    findings = _rehearse(cluster, section, options.with_gpus(settings.trial_gpu_number), share)
    _may_fetch(code, owner)
    size = CodeSize(code.file_count, code.bytes) if isinstance(code, UploadedCode) else \
        None if code else _code_size(platform, options, settings)
    return CheckedLaunch(platform, cluster, section, options, findings, size,
                         str(code.source) if isinstance(code, GitCode) else None)


def launched_before(owner: User, key: str) -> Experiment | None:
    """What this person launched with this key, where they did; deleted since or not."""
    return Experiment.objects.filter(launch_key=_launch_key(owner, key)).first()


def _launch_key(owner: User, key: str) -> str:
    return f"{owner.pk}:{key}"


def launch(parsed: ParsedConfig, owner: User, code: BroughtCode | None = None, *, key: str = "") -> Experiment:
    """Create the experiment where ``check`` finds nothing against it. Raises Refused; then nothing was created.

    ``key``: at most one is created with it; where it is there already, that one is returned (``launched_before`` tells
    sooner).
    """
    checked = check(parsed, owner, code)
    archive = _keep_code(checked.platform, checked.options, parsed.settings, code)
    try:
        with transaction.atomic():
            _check_quotas(checked.options, parsed.settings, owner)  # again: somebody may have launched since
            cluster = _stored(checked, owner)
            return _create(parsed, owner, cluster, checked.options, code, archive, key)
    except IntegrityError:
        # the same request, sent twice, was the first to end
        if key and (first := launched_before(owner, key)) is not None:
            return first
        raise


def create_stopped(parsed: ParsedConfig, owner: User, *, check_first: bool, **fields: Any) -> Experiment:
    """An experiment that begins its life here at rest: no worker ever sees it otherwise. ``fields`` are set on it.

    Raises Refused: with ``check_first`` wherever a launch would be, else only where the platform may not be used.
    """
    checked = check(parsed, owner) if check_first else _unchecked(parsed, owner)
    archive = _keep_code(checked.platform, checked.options, parsed.settings, None) if check_first else None
    with transaction.atomic():
        cluster = _stored(checked, owner)
        experiment = _create(parsed, owner, cluster, checked.options, None, archive)
        Experiment.objects.filter(pk=experiment.pk).update(**fields)
    experiment.refresh_from_db()
    return experiment


def _unchecked(parsed: ParsedConfig, owner: User) -> CheckedLaunch:
    settings = parsed.settings
    section = _section(settings)
    platform = load_platform(section.platform)
    options = _options(settings, platform)
    may_use(platform, options, owner)
    return CheckedLaunch(platform, cluster_of_section(section, owner), section, options, [], None)


def _create(parsed: ParsedConfig, owner: User, cluster: Cluster, options: TrialOptions, code: BroughtCode | None,
            archive: CodeArchive | None, key: str = "") -> Experiment:
    settings = parsed.settings
    now = timezone.now()
    experiment = Experiment.objects.create(
        name=settings.experiment_name or "experiment", description=settings.description, owner=owner,
        group=_group_of(owner), cluster=cluster, tags=list(settings.tags), search_space=settings.search_space,
        tuner=_algorithm(settings.tuner), assessor=_algorithm(settings.assessor) if settings.assessor else None,
        optimize_mode=settings.optimize_mode, objectives=list(settings.objectives),
        seed=settings.seed if settings.seed is not None else secrets.randbelow(2**31),
        trial_command=settings.trial_command, keep_files=list(settings.keep_files), retry=dict(settings.retry),
        failed_trials=dict(settings.failed_trials), retention=dict(settings.retention),
        trial_options=without_secrets(options),
        trial_gpu_number=settings.trial_gpu_number,
        gpus_of_a_trial=options.gpus_of_a_trial(settings.trial_gpu_number),
        code_folder="" if code or settings.trial_code_directory is None else str(settings.trial_code_directory),
        code=archive, code_git=code.source.document() if isinstance(code, GitCode) else None,
        code_git_token=seal(code.token) if isinstance(code, GitCode) and code.token else None,
        trial_concurrency=settings.trial_concurrency, max_trial_number=settings.max_trial_number,
        max_duration=settings.max_experiment_duration, max_trial_duration=settings.max_trial_duration,
        config_text=parsed.original_text, config=resolved_document(settings), notes=list(parsed.notes),
        launch_key=_launch_key(owner, key) if key else None,
        callback_url=settings.nni_manager_ip or "", status=ExperimentStatus.INITIALIZED, created_at=now)
    tuner = with_checkpoint_folder(experiment.tuner, settings, experiment.public_id)
    if tuner != experiment.tuner:
        Experiment.objects.filter(pk=experiment.pk).update(tuner=tuner)
        experiment.tuner = tuner
    ExperimentEvent.objects.create(experiment=experiment, at=now, kind="launched", actor=owner)
    audit.record("experiment.launch", experiment, owner, cluster=cluster.name)
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
        known = list(usable.values_list("name", flat=True))
        raise Refused(Reason("cluster_unknown", cluster=settings.cluster, known=known), "cluster")
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


def _stored(checked: CheckedLaunch, owner: User) -> Cluster:
    """The launch's cluster; a draft is stored now, unless somebody else has stored an equal one in the meantime."""
    draft, section = checked.cluster, checked.section
    if not checked.cluster_is_new or section is None:
        return draft
    base = f"{owner.username[:50]}-{section.platform}" if draft.is_private else section.platform
    taken = set(Cluster.objects.filter(name__startswith=base).values_list("name", flat=True))
    name = next(name for number in range(1, len(taken) + 2)
                if (name := base if number == 1 else f"{base}-{number}") not in taken)
    try:
        return store_cluster(section, name, owner=draft.owner, is_private=draft.is_private,
                             pinned_host=draft.pinned_host)
    except IntegrityError:
        return _stored(replace(checked, cluster=cluster_of_section(section, owner)), owner)


# --- checks --------------------------------------------------------------------------------


def why_not_here(owner: User, platform: type[TrainingService], settings: ClusterSettings | None
                 ) -> list[tuple[str, str]]:
    """Why this person may run no trials there, whatever they ask of it: fields and sentences, [] where they may.

    ``settings``: those of an experiment that describes its platform; None where it names a cluster. It is asked before
    anything that a file names is read.
    """
    if not owner.may_change:
        return [("", "Your role is viewer: you can look, not launch. Ask an administrator.")]
    if platform.pinned_to_host and not owner.may_run_here:
        return [("trainingService.platform",
                 f"Trials of the platform {platform.platform!r} run on this server's own machine, for which one needs "
                 "a right that you do not have. Choose another platform, or ask an administrator for it.")]
    if settings is not None and not owner.is_admin and (borrowed := settings.borrowed_from_the_server()):
        return [("trainingService",
                 f"These settings use what belongs to the server's own user ({borrowed}), which only administrators "
                 "may do. Give a password for each machine, or use a cluster that an administrator has set up.")]
    return []


def may_use(platform: type[TrainingService], options: TrialOptions, owner: User) -> None:
    """Whether this person may run trials with these options there. Raises Refused, with the field at fault."""
    if problems := why_not_here(owner, platform, None):
        raise Refused.for_fields(problems)
    if not platform.pinned_to_host or owner.may_run_here_as(options.os_user()):
        return
    mine = owner.own_local_users
    raise Refused((f"On this server's own machine you may not run trials as {options.os_user()!r}"
                   if options.os_user() else "On this server's own machine you may not run trials as the server's user")
                  + f", only as {' or '.join(mine)}: write runAs: {mine[0]}.", "trainingService.runAs")


def _may_run_in_the_server(settings: ExperimentSettings, owner: User) -> None:
    for section, algorithm in (("tuner", settings.tuner), ("assessor", settings.assessor)):
        if algorithm is not None and algorithm.class_name and not owner.is_admin:
            raise Refused(f"A {section} of your own runs on this server as its user, so only administrators may use "
                          "one; choose a built-in one by its name.", f"{section}.className")


def _may_fetch(code: BroughtCode | None, owner: User) -> None:
    if isinstance(code, GitCode) and code.source.is_ssh and not owner.is_admin:
        raise Refused("Over ssh the keys of the server's own user would be used, which only administrators may do. "
                      "Give an https:// address (and a token, where the repository is not public), or upload the code.",
                      "git_url")


def _way_home(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None) -> None:
    callback_url = settings.nni_manager_ip or ""
    if callback_url and not addresses.is_callback_url(callback_url):
        raise Refused(f"{callback_url!r} is no address. Write the name or the address at which trial machines reach "
                      "this server, with its port where that is another one than the server's own: nni.example.org, "
                      "10.0.0.5:8080, https://nni.example.org.", "nniManagerIp")
    if _keepers_call_home(platform, settings, found) and not addresses.keeper_urls(callback_url):
        raise Refused(Reason("not_callable", platform=platform.platform), "nniManagerIp")


def _keepers_call_home(platform: type[TrainingService], settings: ExperimentSettings, found: Cluster | None) -> bool:
    if not platform.needs_public_url:
        return False
    of_cluster = _settings_of_cluster(settings, found)
    return of_cluster is None or of_cluster.keepers_call_home()


def _way_for_code(settings: ExperimentSettings, found: Cluster | None, code: BroughtCode | None) -> None:
    """Raises Refused where there is code and no way by which it could reach trials."""
    of_cluster = _settings_of_cluster(settings, found)
    if (code is not None or settings.trial_code_directory is not None) and of_cluster is not None \
            and (problem := of_cluster.lacks_way_for_code()):
        raise Refused(problem, "trialCodeDirectory")


def _settings_of_cluster(settings: ExperimentSettings, found: Cluster | None) -> ClusterSettings | None:
    """None where they cannot be made of what is stored: its secrets are elsewhere, and nothing else can be missing."""
    try:
        section = parse_stored_section({"platform": found.platform, **found.settings}, {}) if found else \
            _section(settings)
    except ConfigInvalid:
        return None
    return section.settings


def _rehearse(cluster: Cluster, section: PlatformSection | None, options: TrialOptions,
              share: str) -> list[RehearsalFinding]:
    is_draft = cluster.pk is None

    def question(service: TrainingService) -> tuple[str, list[RehearsalFinding]]:
        lacking = options.lacks_share(share, service.settings) if share else ""
        return lacking, [] if lacking else service.rehearse(quick=True, options=options)

    try:
        build = service_builder(cluster, replacing=section.secrets if section and is_draft else None)
        lacking, findings = ask_new_service(cluster.platform, build, question, platform_calls.BRIEF)
        if lacking:
            raise Refused(lacking, "sharedStorage")
    except TemporaryError as error:  # merely away: the experiment waits and says so
        return [RehearsalFinding("connection", False, struck_out(str(error)), temporary=True)]
    except TrainingServiceError as error:
        raise Refused(with_texts(error.reason, struck_out), "trainingService") from None
    finally:
        if is_draft:
            shutil.rmtree(state_folder(cluster), ignore_errors=True)
    # a platform may answer a refused log-in with what it was sent
    findings = [replace(finding, message=struck_out(finding.message)) for finding in findings]
    blocking = [finding for finding in findings if finding.blocks]
    if blocking:
        raise Refused.for_fields([("trainingService", finding.message) for finding in blocking])
    return findings


def _packs_code(platform: type[TrainingService], options: TrialOptions) -> bool:
    return platform.ships_code or options.copies_code()


def _code_size(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings
               ) -> CodeSize | None:
    """How much would be packed. Raises Refused over the limits."""
    if not _packs_code(platform, options) or settings.trial_code_directory is None:
        return None
    try:
        files = [entry for entry in code_entries(settings.trial_code_directory) if not entry.is_folder]
    except TrainingServiceError as error:
        raise Refused(str(error), "trialCodeDirectory") from None
    return CodeSize(len(files), sum(entry.size for entry in files))


def _check_quotas(options: TrialOptions, settings: ExperimentSettings, owner: User) -> None:
    """Whether quotas leave room for one more experiment. In a transaction. Raises Refused."""
    group = _group_of(owner)
    if reason := why_no_experiment_more(owner, group):
        raise Refused(reason)
    if reason := why_not_so_many_gpus(owner, group, options.gpus_of_a_trial(settings.trial_gpu_number)):
        raise Refused(reason, "trialGpuNumber")


def _keep_code(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings,
               code: BroughtCode | None) -> CodeArchive | None:
    now = timezone.now()
    if isinstance(code, GitCode):
        return None
    if code is not None:
        return code_archives.keep_archive(code.path, code.sha256, code.file_count, now)
    if not _packs_code(platform, options) or settings.trial_code_directory is None:
        return None
    try:
        return code_archives.keep_folder(settings.trial_code_directory, now)
    except TrainingServiceError as error:
        raise Refused(str(error), "trialCodeDirectory") from None


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for an upload on its way in."""
    from django.conf import settings as django_settings

    return tempfile.TemporaryDirectory(dir=django_settings.DATA_FOLDER)
