"""Checks and launches experiments: one way for page, REST and command line."""

import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils import timezone

from nniweb.experiments.access import audit, leashes
from nniweb.experiments.access.request_actor import asking, asking_token
from nniweb.experiments.access.visibility import VisibleTo, default_visibility
from nniweb.experiments.budgets.budget_settings import store_own_budget
from nniweb.experiments.budgets.forecast import Forecast, forecast_launch
from nniweb.experiments.config.parsing import ParsedConfig
from nniweb.experiments.config.platform_section import PlatformSection
from nniweb.experiments.config.resolved import resolved_document
from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings
from nniweb.experiments.earlier.start_from import Taken, keep, take_results
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.checkpoint_folders import (
    check_that_trials_share_a_folder,
    share_a_folder,
    with_checkpoint_folder,
)
from nniweb.experiments.launch.command_file import command_findings
from nniweb.experiments.launch.further_clusters import (
    CheckedCluster,
    check_further_clusters,
    has_several,
    store_clusters,
)
from nniweb.experiments.launch.launch_checks import (
    check_checkpoints,
    check_code_variants,
    check_git_access,
    check_own_algorithms,
    check_quotas,
    check_that_workers_import,
    check_that_workers_know,
    check_way_for_code,
    check_way_home,
    check_what_the_cluster_permits,
    check_work_of_keepers,
    keepers_can_send,
    may_use,
    why_not_here,
)
from nniweb.experiments.launch.launch_cluster import (
    cluster_named,
    cluster_of_section,
    findings_in_words,
    options_of,
    rehearse_cluster,
    section_of,
    stored_cluster,
    tell_of_unreachable,
)
from nniweb.experiments.launch.launched_code import BroughtCode, CodeSize, GitCode, UploadedCode, code_size, keep_code
from nniweb.experiments.models import Cluster, CodeArchive, Experiment, ExperimentEvent, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.pubsub.revisions import next_revision
from nniweb.experiments.results.replicates import stored_replicates
from nniweb.experiments.secrets.sealing import seal
from trainingservice import tracing
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import TrialOptions, part_folders, without_secrets
from trainingservice.platforms import load_platform


@dataclass(frozen=True)
class CheckedLaunch:
    """A launch in which nothing was found that forbids it. Nothing was created."""

    platform: type[TrainingService]
    #: Stored already, or a draft that the launch will store.
    cluster: Cluster
    section: PlatformSection | None
    options: TrialOptions
    visible_to: VisibleTo
    #: Of the quick rehearsal; good ones too.
    findings: list[RehearsalFinding]
    #: None where no code is packed: then trials run in the folder itself.
    code_size: CodeSize | None
    #: The repository that the code would be fetched from, in words.
    code_from: str | None = None
    #: Results of earlier experiments that the search would start from.
    earlier: Sequence[Taken] = ()
    #: Further clusters, behind this one, which is the home.
    others: Sequence[CheckedCluster] = ()
    #: What it would take.
    forecast: Forecast = field(default_factory=Forecast)

    @property
    def warnings(self) -> list[str]:
        """What was found and does not forbid the launch, in a few sentences."""
        return findings_in_words([*self.findings, *(one for other in self.others for one in other.findings)])

    @property
    def notes(self) -> list[str]:
        """What was found in the database about what the config says."""
        return [note for one in self.earlier for note in one.notes()]

    @property
    def cluster_is_new(self) -> bool:
        return self.cluster.pk is None


def check(parsed: ParsedConfig, owner: User, code: BroughtCode | None = None, visible_to: VisibleTo | None = None
          ) -> CheckedLaunch:
    """Everything that a launch checks, a quick rehearsal included; creates nothing. Raises Refused.

    ``visible_to``: None is the default, ``default_visibility``.

    A platform that is merely away does not refuse: the experiment would wait and say so.
    """
    settings = parsed.settings
    if visible_to is not None and visible_to.group is not None and visible_to != default_visibility(owner):
        leashes.must_not("share an experiment", "group")
    group = (visible_to := visible_to or default_visibility(owner)).group
    home = _check_cluster(settings, owner, code, lambda options: _check_quotas(options, settings, owner, group))
    check_own_algorithms(settings, owner)
    check_that_workers_import(settings)
    earlier = take_results(settings, owner)
    others = check_further_clusters(settings, home, owner, visible_to.group, lambda one: _check_cluster(
        one, owner, code))
    check_git_access(code, owner)
    size = CodeSize(code.file_count, code.bytes) if isinstance(code, UploadedCode) else \
        None if code else _size_of_code(settings, [home, *others])
    return CheckedLaunch(home.platform, home.cluster, home.section, home.options, visible_to, home.findings, size,
                         str(code.source) if isinstance(code, GitCode) else None, earlier, others,
                         _forecast(settings, owner, group, home))


def _forecast(settings: ExperimentSettings, owner: User, group: Group | None, home: CheckedCluster) -> Forecast:
    token = asking_token()
    return forecast_launch(
        owner, group.pk if group is not None else None, token.pk if token is not None else None,
        command=settings.trial_command, cluster=home.cluster,
        gpus=home.options.gpus_of_a_trial(settings.trial_gpu_number), cpus=home.options.cpus_of_a_trial(),
        concurrency=settings.trial_concurrency, max_trials=settings.max_trial_number,
        max_seconds=settings.max_experiment_duration, max_trial_seconds=settings.max_trial_duration,
        now=timezone.now())


def _check_quotas(options: TrialOptions, settings: ExperimentSettings, owner: User, group: Group | None) -> None:
    with transaction.atomic():
        check_quotas(options, settings, owner, group)


def _check_cluster(settings: ExperimentSettings, owner: User, code: BroughtCode | None,
                   check_limits: Callable[[TrialOptions], None] = lambda _: None) -> CheckedCluster:
    """What a launch checks of its cluster; of an experiment with several, of the one that the settings have as their
    only one. ``check_limits`` is called before the platform is asked. Raises Refused.
    """
    found = cluster_named(settings, owner)
    name = found.platform if found else section_of(settings).platform
    platform = load_platform(name)
    check_that_workers_know(name)
    options = options_of(settings, platform)
    may_use(platform, options, owner)
    check_what_the_cluster_permits(platform, settings, found, options, owner)
    check_way_home(platform, settings, found)
    check_way_for_code(settings, found, code)
    check_work_of_keepers(platform, settings)
    check_checkpoints(platform, settings, found, options)
    check_code_variants(platform, settings, options, has_code=code is not None)
    section = None if found else section_of(settings)
    if section is not None and (problems := why_not_here(owner, platform, section.settings)):
        raise Refused.for_fields(problems)
    cluster = found or cluster_of_section(section_of(settings), owner)
    leashes.must_reach(cluster, "cluster" if found else "trainingService")
    check_that_trials_share_a_folder(settings, platform, cluster, options,
                                     keepers_can_send(platform, settings, found, options))
    folder = _code_folder(settings, code)
    check_limits(options)
    findings = rehearse_cluster(cluster, section, options, settings, folder)
    # without code of its own a trial elsewhere may find its files in an image, or on its machine
    if not isinstance(code, GitCode) and (folder is not None or platform.shares_code_folder):
        findings = [*findings, *_command_findings(settings, options, code, folder)]
    return CheckedCluster(platform, cluster, section, options, settings.trial_gpu_number, findings)


def _size_of_code(settings: ExperimentSettings, clusters: Sequence[CheckedCluster]) -> CodeSize | None:
    """None where no cluster needs a copy."""
    return next((size for one in clusters if (size := code_size(one.platform, one.options, settings)) is not None),
                None)


def _keep_code(checked: CheckedLaunch, settings: ExperimentSettings, code: BroughtCode | None) -> CodeArchive | None:
    """The archive of the code where one of the clusters needs it; then trials everywhere run in copies of it."""
    for platform, options in ((checked.platform, checked.options),
                              *((one.platform, one.options) for one in checked.others)):
        if (archive := keep_code(platform, options, settings, code)) is not None:
            return archive
    return None


def _code_folder(settings: ExperimentSettings, code: BroughtCode | None) -> Path | None:
    """Where the code lies on this server while it is checked; None where it does not."""
    if code is None:
        return settings.trial_code_directory
    return code.folder if isinstance(code, UploadedCode) else None


def _command_findings(settings: ExperimentSettings, options: TrialOptions, code: BroughtCode | None,
                      folder: Path | None) -> list[RehearsalFinding]:
    """Whether the files that the commands run are there, each in the folder of the role whose command it is."""
    parts = options.code_parts()
    if not parts:
        return command_findings(settings.trial_command, folder)
    folders = code.parts if isinstance(code, UploadedCode) else part_folders(parts)
    return [replace(finding, message=f"Role {part.name}: {finding.message}")
            for part in parts for command in dict.fromkeys(part.commands)
            for finding in command_findings(command or settings.trial_command, folders[part.name],
                                            "the role's command" if command else "trialCommand")]


def launched_before(owner: User, key: str) -> Experiment | None:
    """What this person launched with this key, where they did; deleted since or not. Raises Refused where the request
    is one of a leash that has not launched it: it may not even read it.
    """
    found = Experiment.objects.filter(launch_key=_launch_key(owner, key)).first()
    leash = leashes.present()
    if found is not None and leash is not None and found.token_id != leash.pk:
        raise Refused(f"{owner.username} has launched something else with this Idempotency-Key, not with this token. "
                      "Choose another key.")
    return found


def _launch_key(owner: User, key: str) -> str:
    return f"{owner.pk}:{key}"


def launch(parsed: ParsedConfig, owner: User, code: BroughtCode | None = None, visible_to: VisibleTo | None = None, *,
           key: str = "") -> Experiment:
    """Create the experiment where ``check`` finds nothing against it. Raises Refused; then nothing was created.

    ``visible_to``: None is the default, ``default_visibility``.
    ``key``: at most one is created with it; where it is there already, that one is returned (``launched_before`` tells
    sooner).
    """
    now = asking()
    caller = now.request.headers.get("traceparent", "") if now is not None and now.request is not None else ""
    with tracing.span("launch", is_first=True, caller=caller) as span:
        experiment = _launch(parsed, owner, code, visible_to, key)
        span.note(experiment=experiment.public_id, platform=experiment.cluster.platform)
        return experiment


def _launch(parsed: ParsedConfig, owner: User, code: BroughtCode | None, visible_to: VisibleTo | None, key: str
            ) -> Experiment:
    checked = check(parsed, owner, code, visible_to)
    archive = _keep_code(checked, parsed.settings, code)
    try:
        with transaction.atomic():
            leashes.must_hold()
            # again: somebody may have launched since
            check_quotas(checked.options, parsed.settings, owner, checked.visible_to.group)
            cluster = stored_cluster(checked.cluster, checked.section, owner)
            tell_of_unreachable(cluster, checked.findings)
            experiment = _create(replace(parsed, notes=[*parsed.notes, *checked.notes, *checked.warnings]), owner,
                                 cluster, checked, code, archive, key)
            keep(experiment, checked.earlier, owner)
            return experiment
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
    archive = _keep_code(checked, parsed.settings, None) if check_first else None
    with transaction.atomic():
        cluster = stored_cluster(checked.cluster, checked.section, owner)
        experiment = _create(parsed, owner, cluster, checked, None, archive)
        keep(experiment, checked.earlier, owner)
        Experiment.objects.filter(pk=experiment.pk).update(**fields)
    experiment.refresh_from_db()
    return experiment


def take_config(experiment: Experiment, parsed: ParsedConfig, owner: User, *, without: Collection[str]) -> None:
    """Give an experiment at rest what a launch of this config would give it, but for the fields in ``without``.

    Raises Refused wherever a launch would be; then it is as before.
    """
    checked = check(parsed, owner)
    archive = _keep_code(checked, parsed.settings, None)
    with transaction.atomic():
        cluster = stored_cluster(checked.cluster, checked.section, owner)
        fields = _fields_of(parsed, cluster, checked.options, None, archive)
        if parsed.settings.seed is None:
            fields["seed"] = experiment.seed
        fields["tuner"] = _with_folder(fields["tuner"], parsed, cluster, checked, experiment.public_id)
        Experiment.objects.filter(pk=experiment.pk).update(
            **{name: value for name, value in fields.items() if name not in without})
        store_clusters(experiment, parsed.settings, cluster, checked.others, owner)
        store_own_budget(experiment, parsed.settings.budget)
        next_revision(experiment.pk)


def _unchecked(parsed: ParsedConfig, owner: User) -> CheckedLaunch:
    settings = parsed.settings
    section = section_of(settings)
    platform = load_platform(section.platform)
    options = options_of(settings, platform)
    may_use(platform, options, owner)
    return CheckedLaunch(platform, cluster_of_section(section, owner), section, options, default_visibility(owner), [],
                         None)


def _create(parsed: ParsedConfig, owner: User, cluster: Cluster, checked: CheckedLaunch, code: BroughtCode | None,
            archive: CodeArchive | None, key: str = "") -> Experiment:
    now = timezone.now()
    experiment = Experiment.objects.create(
        **_fields_of(parsed, cluster, checked.options, code, archive), owner=owner, group=checked.visible_to.group,
        token=asking_token(),
        launch_key=_launch_key(owner, key) if key else None, status=ExperimentStatus.INITIALIZED, created_at=now)
    store_clusters(experiment, parsed.settings, cluster, checked.others, owner)
    store_own_budget(experiment, parsed.settings.budget)
    tuner = _with_folder(experiment.tuner, parsed, cluster, checked, experiment.public_id)
    if tuner != experiment.tuner:
        Experiment.objects.filter(pk=experiment.pk).update(tuner=tuner)
        experiment.tuner = tuner
    ExperimentEvent.objects.create(experiment=experiment, at=now, kind="launched", actor=owner)
    group = checked.visible_to.group
    audit.record("experiment.launch", experiment, owner, cluster=cluster.name, group=group.name if group else None)
    next_revision(experiment.pk)
    return experiment


def _with_folder(tuner: dict[str, Any], parsed: ParsedConfig, cluster: Cluster, checked: CheckedLaunch, public_id: str
                 ) -> dict[str, Any]:
    """With the folder of its checkpoints, where it needs one."""
    shared = share_a_folder(parsed.settings, checked.platform, cluster, checked.options)
    return with_checkpoint_folder(tuner, parsed.settings, public_id, shared=shared)


def _fields_of(parsed: ParsedConfig, cluster: Cluster, options: TrialOptions, code: BroughtCode | None,
               archive: CodeArchive | None) -> dict[str, Any]:
    """What an experiment has of its config."""
    settings = parsed.settings
    return {
        "name": settings.experiment_name or "experiment", "description": settings.description, "cluster": cluster,
        "tags": list(settings.tags), "search_space": settings.search_space, "tuner": _algorithm(settings.tuner),
        "assessor": _algorithm(settings.assessor) if settings.assessor else None,
        "optimize_mode": settings.optimize_mode, "objectives": list(settings.objectives),
        "constraints": list(settings.constraints), "outcome_constraints": list(settings.outcome_constraints),
        "seed": settings.seed if settings.seed is not None else secrets.randbelow(2**31),
        "trial_command": settings.trial_command, "keep_files": list(settings.keep_files),
        "retry": dict(settings.retry), "failed_trials": dict(settings.failed_trials),
        "retention": dict(settings.retention), "trial_options": without_secrets(options),
        "trial_gpu_number": settings.trial_gpu_number,
        "gpus_of_a_trial": options.gpus_of_a_trial(settings.trial_gpu_number),
        "cpus_of_a_trial": options.cpus_of_a_trial(),
        "several_clusters": has_several(settings),
        "code_folder": _folder_of_trials(settings, code), "code": archive,
        "code_git": code.source.document() if isinstance(code, GitCode) else None,
        "code_git_token": seal(code.token) if isinstance(code, GitCode) and code.token else None,
        "multi_phase": settings.multi_phase, "replicates": stored_replicates(settings.replicates),
        "priority": settings.priority,
        "trial_concurrency": settings.trial_concurrency, "max_trial_number": settings.max_trial_number,
        "max_duration": settings.max_experiment_duration, "max_trial_duration": settings.max_trial_duration,
        "config_text": parsed.original_text, "config": _stored_config(settings), "notes": list(parsed.notes),
        "callback_url": settings.nni_manager_ip or ""}


def _stored_config(settings: ExperimentSettings) -> dict[str, Any]:
    """What the experiment was at its launch; with its first search space, whatever that is from."""
    return {**resolved_document(settings), "searchSpace": settings.search_space}


def _folder_of_trials(settings: ExperimentSettings, code: BroughtCode | None) -> str:
    """Where trials may run; "" where they get copies only: in the folder the annotations are not carried out."""
    if code or settings.use_annotation or settings.trial_code_directory is None:
        return ""
    return str(settings.trial_code_directory)


def _algorithm(settings: AlgorithmSettings) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude_none=True)

