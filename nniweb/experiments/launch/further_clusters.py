"""The clusters of a launch behind the first one: checked as that one is, and kept as rows of the experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db import transaction

from nniweb.experiments.config.platform_section import PlatformSection
from nniweb.experiments.config.settings import ClusterEntry, ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import check_quotas
from nniweb.experiments.launch.launch_cluster import stored_cluster, tell_of_unreachable
from nniweb.experiments.models import Cluster, Experiment, ExperimentCluster, User
from trainingservice.base import RehearsalFinding, TrainingService
from trainingservice.cluster_settings import TrialOptions, without_secrets


@dataclass(frozen=True)
class CheckedCluster:
    """A cluster on which nothing forbids the launch."""

    platform: type[TrainingService]
    #: Stored already, or a draft that the launch will store.
    cluster: Cluster
    section: PlatformSection | None
    options: TrialOptions
    gpu_number: int | None
    #: Of the quick rehearsal; good ones too.
    findings: list[RehearsalFinding]


def has_several(settings: ExperimentSettings) -> bool:
    """Whether the experiment needs rows for its clusters. A list of one that says nothing else is the simple case."""
    return len(settings.clusters) > 1 or any(entry != ClusterEntry(
        name=entry.name, training_service=entry.training_service, trial_options=entry.trial_options)
        for entry in settings.clusters)


def check_further_clusters(settings: ExperimentSettings, home: CheckedCluster, owner: User, group: Group | None,
                           check: Callable[[ExperimentSettings], CheckedCluster]) -> list[CheckedCluster]:
    """Check the clusters behind the home. Raises Refused, with fields of the entry that is at fault."""
    found: list[CheckedCluster] = []
    for index, entry in enumerate(settings.clusters[1:], 1):
        at = f"clusters.{index}" if entry.name is not None else f"trainingService.{index}"
        alone = _as_only_one(settings, entry)
        try:
            checked = check(alone)
            with transaction.atomic():
                check_quotas(checked.options, alone, owner, group)
        except Refused as refused:
            raise Refused.for_fields([(_field_of(field, at), said) for field, said in refused.errors]) from None
        if any(_same(checked, other) for other in (home, *found)):
            raise Refused("This is the same cluster as an earlier one of the list. Name each cluster once.", at)
        found.append(checked)
    return found


def _as_only_one(settings: ExperimentSettings, entry: ClusterEntry) -> ExperimentSettings:
    gpus = settings.trial_gpu_number if entry.trial_gpu_number is None else entry.trial_gpu_number
    return settings.model_copy(update={
        "cluster": entry.name, "training_service": entry.training_service, "trial_options": entry.trial_options,
        "trial_gpu_number": gpus, "clusters": ()})


def _field_of(field: str, at: str) -> str:
    """The field in the entry for one of an experiment with a single cluster; others stay."""
    head, _, rest = field.partition(".")
    if head == "cluster":
        return f"{at}.name"
    if head in ("trialOptions", "trainingService"):
        inner = head if at.startswith("clusters") and head == "trialOptions" else ""
        return ".".join(filter(None, (at, inner, rest)))
    return f"{at}.trialGpuNumber" if head == "trialGpuNumber" else field


def _same(one: CheckedCluster, other: CheckedCluster) -> bool:
    if one.cluster.pk is not None or other.cluster.pk is not None:
        return one.cluster.pk == other.cluster.pk
    return one.platform is other.platform and one.section is not None and other.section is not None \
        and one.section.settings == other.section.settings and one.section.secrets == other.section.secrets


def store_clusters(experiment: Experiment, settings: ExperimentSettings, home: Cluster,
                   others: Sequence[CheckedCluster], owner: User) -> None:
    """Write the rows of an experiment that runs on several clusters; none where it has one. In a transaction."""
    ExperimentCluster.objects.filter(experiment=experiment).delete()
    if not has_several(settings):
        return
    clusters = [home]
    for other in others:
        clusters.append(stored_cluster(other.cluster, other.section, owner))
        tell_of_unreachable(clusters[-1], other.findings)
    by_name = {entry.name: cluster.pk for entry, cluster in zip(settings.clusters, clusters, strict=True)}
    rows = []
    for position, (entry, cluster) in enumerate(zip(settings.clusters, clusters, strict=True)):
        gpus = settings.trial_gpu_number if entry.trial_gpu_number is None else entry.trial_gpu_number
        options = others[position - 1].options if position else None
        rows.append(ExperimentCluster(
            experiment=experiment, cluster=cluster, position=position, up_to=entry.up_to, weight=entry.weight,
            cost=entry.cost, after=[by_name[name] for name in entry.after], is_drained=entry.drained,
            trial_options=experiment.trial_options if options is None else without_secrets(options),
            trial_gpu_number=gpus,
            gpus_of_a_trial=experiment.gpus_of_a_trial if options is None else options.gpus_of_a_trial(gpus),
            cpus_of_a_trial=experiment.cpus_of_a_trial if options is None else options.cpus_of_a_trial()))
    ExperimentCluster.objects.bulk_create(rows)
    # quotas count what a trial may take at most
    most = max(row.gpus_of_a_trial for row in rows)
    if most != experiment.gpus_of_a_trial:
        Experiment.objects.filter(pk=experiment.pk).update(gpus_of_a_trial=most)
        experiment.gpus_of_a_trial = most
