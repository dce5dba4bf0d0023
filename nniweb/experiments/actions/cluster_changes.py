"""Changes of the clusters of an experiment that goes on: one more, one drained, other limits and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.utils import timezone

from nniweb.experiments.access import leashes
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.budgets.attempt_costs import Asked, keep_what_they_asked_for
from nniweb.experiments.clusters.metadata import defaults_of
from nniweb.experiments.config.cluster_list import ClustersDocument, read_entries
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.fields.walk import FieldWalk
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.model_validation import validate
from nniweb.experiments.config.resolved import cluster_document
from nniweb.experiments.config.settings import AlgorithmSettings, ClusterEntry, ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import (
    check_checkpoints,
    check_code_variants,
    check_containers,
    check_that_workers_know,
    check_way_for_code,
    check_way_home,
    check_what_the_cluster_permits,
    check_work_of_keepers,
    may_use,
)
from nniweb.experiments.launch.launch_cluster import cluster_named
from nniweb.experiments.launch.launched_code import keep_code
from nniweb.experiments.launch.listed_clusters import is_home_alone
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, User
from nniweb.experiments.models.experiment_cluster import keep_rows, rows_by_cluster
from nniweb.experiments.quotas.launch_quotas import why_not_so_many_gpus
from trainingservice.cluster_settings import TrialOptions
from trainingservice.platforms import load_platform


def checked_clusters(experiment: Experiment, given: Sequence[Mapping[str, Any]], actor: User | None
                     ) -> list[dict[str, Any]]:
    """The list in its canonical form. An entry of a cluster that the experiment has keeps the trial options that it
    leaves out. Raises Refused, with fields such as ``clusters.1.name``. In a transaction.
    """
    if not given:  # the home alone, with the experiment's own options
        given = [{"name": experiment.cluster.name, "trialOptions": experiment.trial_options or {}}]
    rows = {row.cluster.name: row for row in rows_by_cluster(experiment).values()}
    entries = _read(experiment, [_completed(experiment, entry, rows) for entry in given], actor)
    for index, entry in enumerate(entries):
        if not _is_as_it_was(experiment, entry, rows.get(entry.name or "")):
            try:
                _check(experiment, entry, actor)
            except Refused as refused:
                raise Refused.for_fields([(f"clusters.{index}.{field}".rstrip("."), said)
                                          for field, said in refused.errors]) from None
    documents = []
    for entry in entries:
        document = cluster_document(entry, entry.trial_options)
        if entry.trial_gpu_number is None and experiment.trial_gpu_number is not None:
            document["trialGpuNumber"] = experiment.trial_gpu_number
        documents.append(document)
    return [] if is_home_alone(experiment, documents, experiment.cluster.name) else documents


def set_clusters(experiment: Experiment, documents: Sequence[Mapping[str, Any]]) -> None:
    """Make the list this one, which was checked; [] leaves the home alone. In the transaction of the change.

    A cluster that is not in it gets no new trials; what runs there goes on. An entry that is another one than before is
    tried again, whatever the cluster refused.
    """
    home = Cluster.objects.get(pk=experiment.cluster_id)
    listed = list(documents) or [{"name": home.name}]
    clusters = {cluster.name: cluster for cluster in Cluster.objects.filter(
        name__in=[entry["name"] for entry in listed])}
    rows = {row.cluster_id: row for row in ExperimentCluster.objects.filter(experiment=experiment)}
    if not experiment.several_clusters:
        # from now on it would not be known where they ran
        Attempt.objects.filter(trial__experiment=experiment, cluster=None).update(cluster=home)
    if home.pk not in rows:
        rows[home.pk] = ExperimentCluster(
            experiment=experiment, cluster=home, position=0, is_listed=False, used_at=timezone.now(),
            trial_options=experiment.trial_options, trial_gpu_number=experiment.trial_gpu_number,
            gpus_of_a_trial=experiment.gpus_of_a_trial, cpus_of_a_trial=experiment.cpus_of_a_trial)
    for row in rows.values():
        row.is_listed = False
    for position, entry in enumerate(listed):
        cluster = clusters[entry["name"]]
        row = rows.setdefault(cluster.pk, ExperimentCluster(experiment=experiment, cluster=cluster))
        before = (row.up_to, row.weight, row.cost, row.is_drained, row.trial_options, row.trial_gpu_number)
        row.position, row.is_listed, row.up_to = position, True, entry.get("upTo")
        row.weight, row.cost, row.is_drained = entry.get("weight", 1.0), entry.get("cost"), entry.get("drained", False)
        row.after = [clusters[name].pk for name in entry.get("after", ())]
        if documents:
            row.trial_options = entry.get("trialOptions", {})
            row.trial_gpu_number = entry.get("trialGpuNumber")
        else:
            row.trial_options, row.trial_gpu_number = experiment.trial_options or {}, experiment.trial_gpu_number
        options = load_platform(cluster.platform).options_model.model_validate(row.trial_options)
        asked = Asked(row.gpus_of_a_trial, row.cpus_of_a_trial)
        row.gpus_of_a_trial = options.gpus_of_a_trial(row.trial_gpu_number)
        row.cpus_of_a_trial = options.cpus_of_a_trial()
        if asked != (asks := Asked(row.gpus_of_a_trial, row.cpus_of_a_trial)):
            keep_what_they_asked_for(experiment, cluster, asked, asks)
        if before != (row.up_to, row.weight, row.cost, row.is_drained, row.trial_options, row.trial_gpu_number):
            row.refusal, row.failures = None, []
    for row in rows.values():
        row.save()
    most = max(row.gpus_of_a_trial for row in rows.values() if row.is_listed)
    Experiment.objects.filter(pk=experiment.pk).update(several_clusters=True, gpus_of_a_trial=most)
    experiment.several_clusters, experiment.gpus_of_a_trial = True, most
    keep_rows(experiment, rows)


def _completed(experiment: Experiment, entry: Mapping[str, Any], rows: Mapping[str, ExperimentCluster]
               ) -> dict[str, Any]:
    completed = dict(entry)
    name = completed.get("name")
    if "trialOptions" in completed or not isinstance(name, str):
        return completed
    if (row := rows.get(name)) is not None:
        completed["trialOptions"] = row.trial_options
    elif name == experiment.cluster.name:
        completed["trialOptions"] = experiment.trial_options
    elif (cluster := Cluster.objects.filter(name=name).prefetch_related("metadata").first()) is not None:
        completed["trialOptions"] = defaults_of(cluster).options
    completed["trialOptions"] = completed.get("trialOptions") or None
    return completed


def _read(experiment: Experiment, given: list[dict[str, Any]], actor: User | None) -> tuple[ClusterEntry, ...]:
    usable = dict(visible_clusters(actor).values_list("name", "platform")) if actor is not None else \
        dict(Cluster.objects.values_list("name", "platform"))
    usable |= {row.cluster.name: row.cluster.platform for row in rows_by_cluster(experiment).values()}
    usable[experiment.cluster.name] = experiment.cluster.platform
    findings = Findings({})
    walk = FieldWalk(findings, LocalPaths(None, must_exist=False))
    written = {"clusters": given, "trialGpuNumber": experiment.trial_gpu_number}
    document = validate(ClustersDocument, walk.mapping(written, (ClustersDocument,), ()), (), findings)
    context = {"must_exist": False, "trial_gpu_number": experiment.trial_gpu_number}
    entries = () if document is None else read_entries(document, None, walk, context, usable.get, lambda *_: True,
                                                       home_is_read=False)
    try:
        findings.raise_if_any()
    except ConfigInvalid as invalid:
        raise Refused.for_fields([(error.field.replace("[", ".").replace("]", ""), error.message)
                                  for error in invalid.errors]) from None
    return entries


def _is_as_it_was(experiment: Experiment, entry: ClusterEntry, row: ExperimentCluster | None) -> bool:
    """Whether trials may go to the cluster now, and what they ask for there stays: somebody with the right has said so.
    """
    if row is None and (experiment.several_clusters or entry.name != experiment.cluster.name) \
            or row is not None and not row.is_listed:
        return False
    known = experiment if row is None else row
    model = load_platform(experiment.cluster.platform if row is None else row.cluster.platform).options_model
    gpus = experiment.trial_gpu_number if entry.trial_gpu_number is None else entry.trial_gpu_number
    return gpus == known.trial_gpu_number and model.model_validate(known.trial_options or {}) == (
        entry.trial_options or model())


def _check(experiment: Experiment, entry: ClusterEntry, actor: User | None) -> None:
    """What a launch checks of a cluster, but for its rehearsal. Raises Refused."""
    owner = actor or experiment.owner
    if owner is None:
        raise Refused("The experiment has no owner, for whom a cluster could be added.", "name")
    settings = _settings_of(experiment, entry)
    cluster = cluster_named(settings, owner)
    assert cluster is not None
    leashes.must_reach(cluster, "name")
    platform = load_platform(cluster.platform)
    options = entry.trial_options or platform.options_model()
    check_that_workers_know(cluster.platform)
    may_use(platform, options, owner)
    check_what_the_cluster_permits(platform, settings, cluster, options, owner)
    check_way_home(platform, settings, cluster)
    check_way_for_code(settings, cluster, None)
    check_work_of_keepers(platform, settings)
    check_containers(settings, options)
    check_checkpoints(platform, settings, cluster, options)
    check_code_variants(platform, settings, options, has_code=experiment.code_id is not None)
    if reason := why_not_so_many_gpus(owner, experiment.group, options.gpus_of_a_trial(settings.trial_gpu_number)):
        raise Refused(reason, "trialGpuNumber")
    _bring_code(experiment, platform.ships_code, settings, options)


def _bring_code(experiment: Experiment, ships_code: bool, settings: ExperimentSettings, options: TrialOptions) -> None:
    """Pack the code of trials that ran in its folder so far: elsewhere they get a copy."""
    if not ships_code or experiment.code_id is not None or not experiment.code_folder:
        return
    platform = load_platform(Cluster.objects.values_list("platform", flat=True).get(name=settings.cluster))
    archive = keep_code(platform, options, settings, None)
    Experiment.objects.filter(pk=experiment.pk).update(code=archive)
    experiment.code = archive


def _settings_of(experiment: Experiment, entry: ClusterEntry) -> ExperimentSettings:
    """Of the experiment, as if the entry's cluster were its only one: as far as the checks ask."""
    gpus = experiment.trial_gpu_number if entry.trial_gpu_number is None else entry.trial_gpu_number
    return ExperimentSettings(
        search_space=experiment.search_space, trial_command=experiment.trial_command, cluster=entry.name,
        trial_options=entry.trial_options, trial_gpu_number=gpus, tuner=AlgorithmSettings(name="Random"),
        trial_code_directory=Path(experiment.code_folder) if experiment.code_folder else None,
        keep_files=tuple(experiment.keep_files), checkpoints=experiment.config.get("checkpoints"),
        metrics=experiment.config.get("metrics") or {}, code_variants=experiment.config.get("codeVariants") or {},
        nni_manager_ip=experiment.callback_url or None, trial_concurrency=experiment.trial_concurrency,
        optimize_mode=experiment.optimize_mode, multi_phase=experiment.multi_phase)
