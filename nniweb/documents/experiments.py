"""What experiments look like over REST."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import serializers

from nniweb.documents.own_group import OwnGroupField
from nniweb.documents.reasons import reason_document
from nniweb.documents.retention_fields import DaysKeptSerializer, JobsField, RetentionField, RetentionSerializer
from nniweb.documents.started_from import StartedFromSerializer, started_from
from nniweb.documents.tuner_choice import TunerChoiceSerializer, choice_document
from nniweb.experiments.config.document import LARGEST_COUNT, MOST, MOST_CLUSTERS, MOST_PRIORITY
from nniweb.experiments.config.yaml_positions import LONGEST_TEXT
from nniweb.experiments.launch.current_config import current_config
from nniweb.experiments.launch.listed_clusters import clusters_now
from nniweb.experiments.launch.stored_options import code_parts_of
from nniweb.experiments.lifecycle.nni_ports import why_nni_port_is_closed
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.queries.explanation import explanations_of
from nniweb.experiments.queries.present_revisions import revisions_as_read
from nniweb.experiments.results.outcome import Outcome, outcome_of
from nniweb.experiments.results.progress import Progress, progress_of
from nniweb.experiments.results.replicates import replicates_of_each
from nniweb.experiments.retention.policy import KINDS, days_kept, jobs_kept
from nniweb.http.fields import DurationField, StrictSerializer, TagsField, TrueOrFalseField
from nniweb.http.reason_serializer import ReasonSerializer
from nniweb.http.times import time_text
from trainingservice.reasons import arguments_of, code_of
from trainingservice.trial_job_status import TrialJobStatus


class TrialCountsSerializer(serializers.Serializer[Any]):
    """How many trials are in each status."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {status.value: serializers.IntegerField() for status in TrialJobStatus}


class ProgressSerializer(serializers.Serializer[Any]):
    """How far the experiment is."""

    trials = TrialCountsSerializer()
    total = serializers.IntegerField(help_text="Trials submitted so far.")
    ended = serializers.IntegerField(help_text="Trials that have ended, with any result.")
    fraction = serializers.FloatField(allow_null=True, help_text="0 to 1; null if there is no limit.")
    elapsed = serializers.FloatField(help_text=(
        "Seconds in the statuses RUNNING, NO_MORE_TRIAL and TUNER_NO_MORE_TRIAL."))
    eta = serializers.FloatField(allow_null=True, help_text=(
        "Estimated seconds to the end, at the average speed so far; null while the cluster cannot be used."))
    best_value = serializers.FloatField(allow_null=True, help_text=(
        "Of the results that satisfy the constraints on outcomes."))
    best_standard_error = serializers.FloatField(allow_null=True, help_text=(
        "With replicates, best_value is the mean of the best proposal that was run in full; this is its standard "
        "error."))
    best_replicates = serializers.IntegerField(allow_null=True, help_text=(
        "With replicates, the number of values that best_value is the mean of."))
    best_trial_id = serializers.CharField(allow_null=True)
    best_sequence_id = serializers.IntegerField(allow_null=True, help_text=(
        "Sequence number of that trial in its experiment."))
    front = serializers.IntegerField(allow_null=True, help_text=(
        "With several objectives: number of trials on the Pareto front. There is no single best trial then."))


class ObjectiveSerializer(serializers.Serializer[Any]):
    """A metric that is searched by."""

    metric = serializers.CharField()
    optimize_mode = serializers.ChoiceField(choices=Experiment.OptimizeMode.choices)


class CodeFromGitSerializer(serializers.Serializer[Any]):
    """Code that the worker fetches."""

    url = serializers.CharField()
    ref = serializers.CharField(help_text="Branch, tag or commit; \"\" for the default branch.")
    folder = serializers.CharField(help_text="\"\" for the whole repository.")
    commit = serializers.CharField(default=None, allow_null=True, help_text="The commit that was fetched.")


class NniPortSerializer(serializers.Serializer[Any]):
    """The loopback port for NNI's clients, which answers without a token."""

    port = serializers.IntegerField()
    message = serializers.CharField(help_text="Why the server could not open it; \"\" if it could.")
    reason = ReasonSerializer(allow_null=True)


class ExperimentSummarySerializer(serializers.Serializer[Any]):
    """An experiment in a list."""

    id = serializers.CharField()
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=ExperimentStatus.choices)
    outcome = serializers.ChoiceField(choices=[one.value for one in Outcome], allow_null=True, help_text=(
        "How it ended, judged by its trials; null until it has ended. failed: trials failed, and none succeeded or was "
        "stopped early. partly_failed: there is a result, and trials failed. no_result: no trial has a result that "
        "counts."))
    target = serializers.ChoiceField(choices=ExperimentTarget.choices, help_text=(
        "What people want the experiment to do."))
    message = serializers.CharField(
        help_text="Explains the status, if there is something to say; also that no worker is running.")
    reason = ReasonSerializer(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    group = serializers.CharField(allow_null=True, help_text="The group whose members can also see and change it.")
    cluster = serializers.CharField()
    platform = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    archived = serializers.BooleanField()
    optimize_mode = serializers.ChoiceField(choices=Experiment.OptimizeMode.choices, help_text=(
        "Whether smaller or greater values of the main metric are better."))
    objectives = ObjectiveSerializer(many=True, help_text=(
        "The metrics to optimize, the main one first; empty if the config names none."))
    replicates = serializers.IntegerField(help_text="Trials of a proposal that is run in full; 1 without replicates.")
    trial_concurrency = serializers.IntegerField()
    priority = serializers.IntegerField(help_text=(
        "Where a cluster has no room, trials of experiments with a higher priority go first."))
    max_trial_number = serializers.IntegerField(allow_null=True)
    max_duration = serializers.FloatField(allow_null=True, help_text="Seconds, as `elapsed` counts them.")
    max_trial_duration = serializers.FloatField(allow_null=True, help_text="Seconds of one trial.")
    code_git = CodeFromGitSerializer(allow_null=True, help_text="null if the code does not come from a repository.")
    progress = ProgressSerializer()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    changed_at = serializers.DateTimeField(allow_null=True, help_text="When the revision last grew.")
    revision = serializers.IntegerField(help_text="Grows with each change of the experiment or its trials.")

    def to_representation(self, experiment: Experiment) -> dict[str, Any]:
        """By hand: of a thousand experiments, field by field, this would be most of what the list takes."""
        git = experiment.code_git
        explanation = self.context["explanations"][experiment.pk]
        progress = self.context["progress"][experiment.pk]
        return {
            "id": experiment.public_id, "name": experiment.name, "status": experiment.status,
            "outcome": outcome_of(experiment, progress), "target": experiment.target, "message": str(explanation),
            "reason": reason_document(code_of(explanation), arguments_of(explanation)),
            "owner": experiment.owner.username if experiment.owner else None,
            "group": experiment.group.name if experiment.group else None, "cluster": experiment.cluster.name,
            "platform": experiment.cluster.platform, "tags": experiment.tags, "archived": experiment.archived,
            "optimize_mode": experiment.optimize_mode, "objectives": experiment.objectives,
            "replicates": replicates_of_each(experiment), "trial_concurrency": experiment.trial_concurrency,
            "priority": experiment.priority,
            "max_trial_number": experiment.max_trial_number, "max_duration": experiment.max_duration,
            "max_trial_duration": experiment.max_trial_duration,
            "code_git": None if git is None else CodeFromGitSerializer(git).data,
            "progress": progress_document(progress),
            "created_at": time_text(experiment.created_at), "started_at": time_text(experiment.started_at),
            "ended_at": time_text(experiment.ended_at), "changed_at": time_text(experiment.changed_at),
            "revision": self.context["revisions"].get(experiment.pk, experiment.revision)}


def progress_document(progress: Progress) -> dict[str, Any]:
    """What ProgressSerializer describes."""
    return {"trials": progress.counts, "total": progress.total, "ended": progress.ended,
            "fraction": progress.fraction, "elapsed": progress.elapsed, "eta": progress.eta,
            "best_value": progress.best_value, "best_standard_error": progress.best_standard_error,
            "best_replicates": progress.best_replicates, "best_trial_id": progress.best_trial_id,
            "best_sequence_id": progress.best_sequence_id, "front": progress.front}


class ExperimentSerializer(ExperimentSummarySerializer):
    """An experiment with everything that was said about it."""

    description = serializers.CharField(help_text="What people have written about it, in Markdown.")
    notes = serializers.ListField(child=serializers.CharField(), help_text=(
        "Notes on how the config file was interpreted."))
    search_space = serializers.DictField()
    constraints = serializers.ListField(child=serializers.CharField(), help_text=(
        "Conditions that the parameters of every trial satisfy."))
    outcome_constraints = serializers.ListField(child=serializers.CharField(), help_text=(
        "Conditions on final results. Results that satisfy all of them go before all others."))
    tuner = serializers.DictField()
    tuner_choice = TunerChoiceSerializer(allow_null=True, help_text=(
        "The tuner by which Auto proposes now. null for other tuners, and before the first proposal."))
    assessor = serializers.DictField(allow_null=True)
    seed = serializers.IntegerField()
    trial_command = serializers.CharField()
    trial_gpu_number = serializers.IntegerField(allow_null=True)
    clusters = serializers.ListField(child=serializers.DictField(), help_text=(
        "Of an experiment on several clusters: the list as it is now, as `clusters` of a config file. Empty if it runs "
        "on `cluster` alone."))
    code_folder = serializers.CharField(help_text="On the server; \"\" if trials get copies of code that was uploaded "
                                        "or fetched, or whose annotations are carried out.")
    code_folders = serializers.DictField(child=serializers.CharField(), help_text=(
        "Role to folder, where roles have code of their own: on the server, in the repository or in the uploaded code. "
        "Empty if all of the code is one folder."))
    code_sha256 = serializers.CharField(allow_null=True)
    retention = RetentionSerializer(help_text="The experiment's own settings; null: the server's setting applies.")
    days_kept = DaysKeptSerializer(help_text="The settings that apply.")
    jobs_kept = JobsField(help_text="The setting that applies to ended jobs on Kubernetes: days, forever or saved.")
    code_removed_at = serializers.DateTimeField(allow_null=True, help_text=(
        "When retention removed the copy of its code. The experiment cannot continue then, but it can be cloned."))
    checkpoints_removed_at = serializers.DateTimeField(allow_null=True, help_text=(
        "When retention removed the checkpoints that its trials continue from. The experiment cannot continue then, "
        "but it can be cloned."))
    jobs_removed_at = serializers.DateTimeField(allow_null=True, help_text=(
        "When ended jobs of it were removed from its platform."))
    nni_port = NniPortSerializer(allow_null=True, help_text=(
        "Opened with the command `nni-port` on the server's machine; null without one."))
    config = serializers.DictField(help_text=(
        "The resolved config, in NNI's v2 form, with what was changed since the launch."))
    started_from = StartedFromSerializer(many=True, help_text="Earlier experiments that startFrom names.")
    config_text = serializers.CharField(help_text="The original text of the config, without secrets.")

    def to_representation(self, experiment: Experiment) -> dict[str, Any]:
        return {
            **super().to_representation(experiment), "description": experiment.description, "notes": experiment.notes,
            "search_space": experiment.search_space, "constraints": experiment.constraints,
            "outcome_constraints": experiment.outcome_constraints, "tuner": experiment.tuner,
            "tuner_choice": choice_document(experiment), "assessor": experiment.assessor, "seed": experiment.seed,
            "trial_command": experiment.trial_command,
            "trial_gpu_number": experiment.trial_gpu_number, "clusters": clusters_now(experiment),
            "code_folder": experiment.code_folder,
            "code_folders": {part.name: part.folder for part in code_parts_of(experiment)},
            "code_sha256": experiment.code.sha256 if experiment.code else None,
            "retention": {kind: experiment.retention.get(kind) for kind in KINDS},
            "days_kept": days_kept(experiment.retention), "jobs_kept": jobs_kept(experiment.retention),
            "code_removed_at": time_text(experiment.code_removed_at),
            "checkpoints_removed_at": time_text(experiment.checkpoints_removed_at),
            "jobs_removed_at": time_text(experiment.jobs_removed_at), "nni_port": _nni_port(experiment),
            "config": current_config(experiment), "started_from": started_from(experiment),
            "config_text": experiment.config_text}


def _nni_port(experiment: Experiment) -> dict[str, Any] | None:
    if experiment.nni_port is None:
        return None
    why = why_nni_port_is_closed(experiment)
    return {"port": experiment.nni_port, "message": str(why),
            "reason": reason_document(code_of(why), arguments_of(why))}


#: Characters of what people write about an experiment.
LONGEST_DESCRIPTION = 100_000
#: Columns a list does not show: they can be large.
NOT_IN_LISTS = ("description", "notes", "search_space", "constraints", "outcome_constraints", "tuner", "tuner_choice",
                "assessor", "config", "config_text")


#: What ``summaries`` reads of an experiment.
IN_LISTS = ("public_id", "name", "status", "target", "message", "reason", "reason_arguments", "owner", "group",
            "cluster", "several_clusters", "tags", "archived", "optimize_mode", "objectives", "replicates",
            "trial_concurrency", "priority", "max_trial_number", "max_duration", "max_trial_duration", "code_git",
            "created_at", "started_at", "ended_at", "changed_at", "revision", "running_seconds", "running_since",
            "deleted_at")


def for_a_list(experiments: QuerySet[Experiment]) -> QuerySet[Experiment]:
    """What ``summaries`` needs of them and no more; people, groups and clusters, of which there are few, once each."""
    return experiments.only(*IN_LISTS).prefetch_related("owner", "group", "cluster")


def summaries(experiments: Iterable[Experiment], now: datetime | None = None) -> list[dict[str, Any]]:
    """The documents of a page of experiments, whose progress is asked for at once."""
    page = list(experiments)
    return list(ExperimentSummarySerializer(page, many=True, context=_context(page, now or timezone.now())).data)


def document(experiment: Experiment, now: datetime | None = None) -> dict[str, Any]:
    """The whole document of one experiment."""
    return dict(ExperimentSerializer(experiment, context=_context([experiment], now or timezone.now())).data)


def _context(experiments: list[Experiment], now: datetime) -> dict[str, Any]:
    revisions = revisions_as_read(experiments)
    progress = progress_of(experiments, now)
    return {"progress": progress, "explanations": explanations_of(experiments, progress), "revisions": revisions}


class TunerSerializer(StrictSerializer):
    """A built-in tuner."""

    name = serializers.CharField(max_length=100)
    class_args = serializers.DictField(required=False, help_text="May be written `classArgs`, as in config files.")

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and "classArgs" in data and "class_args" not in data:
            data = {("class_args" if name == "classArgs" else name): value for name, value in data.items()}
        return super().to_internal_value(data)


class NewLimitsSerializer(StrictSerializer):
    """Limits with which an experiment goes on; what is left out stays."""

    max_trial_number = serializers.IntegerField(min_value=1, max_value=LARGEST_COUNT, allow_null=True, required=False)
    max_duration = DurationField(allow_null=True, required=False, help_text="Seconds, or text such as \"90m\".")


class ExperimentChangesSerializer(StrictSerializer):
    """What can be changed, also while it runs. Trials that exist are never ended by it."""

    name = serializers.CharField(max_length=200, required=False)
    description = serializers.CharField(allow_blank=True, max_length=LONGEST_DESCRIPTION, required=False)
    tags = TagsField(required=False)
    archived = TrueOrFalseField(required=False)
    group = OwnGroupField(allow_null=True, required=False)
    owner = serializers.CharField(max_length=150, required=False, help_text=(
        "User name of a new owner. Only the owner and administrators can hand an experiment over."))
    trial_concurrency = serializers.IntegerField(min_value=1, max_value=MOST, required=False)
    clusters = serializers.ListField(child=serializers.DictField(), required=False, max_length=MOST_CLUSTERS,
                                     help_text=(
        "The whole list, as `clusters` of a config file. A cluster that is left out gets no new trials. An entry of a "
        "cluster that the experiment has keeps trialOptions that it leaves out. []: the home cluster alone."))
    priority = serializers.IntegerField(min_value=-MOST_PRIORITY, max_value=MOST_PRIORITY, required=False)
    max_trial_number = serializers.IntegerField(min_value=1, max_value=LARGEST_COUNT, allow_null=True, required=False)
    max_duration = DurationField(allow_null=True, required=False, help_text="Seconds, or text such as \"90m\".")
    max_trial_duration = DurationField(allow_null=True, required=False, help_text="Seconds, or text such as \"90m\".")
    retention = RetentionField(required=False, help_text=(
        "How long data other than results is kept. Replaces the experiment's settings as a whole. null or left out: "
        "the server's setting applies."))
    tuner = TunerSerializer(required=False, help_text=(
        "Another built-in tuner, or other arguments. It continues with all results so far."))
    search_space = serializers.DictField(required=False)
    search_space_text = serializers.CharField(required=False, max_length=LONGEST_TEXT, help_text=(
        "Instead of search_space: its JSON as text. Errors then contain the line."))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "search_space" in attrs and "search_space_text" in attrs:
            raise serializers.ValidationError({"search_space_text": "cannot be given together with search_space."})
        return attrs
