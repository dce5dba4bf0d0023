"""What experiments look like over REST."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nniweb.api.fields import DurationField, StrictSerializer, TagsField
from nniweb.api.own_group import OwnGroupField
from nniweb.experiments.config.document import LARGEST_COUNT, MOST
from nniweb.experiments.config.yaml_positions import LONGEST_TEXT
from nniweb.experiments.explanation import explanations_of
from nniweb.experiments.models import Experiment
from nniweb.experiments.models.experiment import ExperimentStatus, ExperimentTarget
from nniweb.experiments.progress import Progress, progress_of
from trainingservice.trial_job_status import TrialJobStatus


class TrialCountsSerializer(serializers.Serializer[Any]):
    """How many trials are in each status."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {status.value: serializers.IntegerField() for status in TrialJobStatus}


class ProgressSerializer(serializers.Serializer[Any]):
    """How far the experiment is."""

    trials = TrialCountsSerializer(source="counts")
    total = serializers.IntegerField(help_text="Trials submitted so far.")
    ended = serializers.IntegerField(help_text="Trials that have ended, however.")
    fraction = serializers.FloatField(allow_null=True, help_text="0 to 1; null where there is no limit.")
    elapsed = serializers.FloatField(help_text="Seconds spent in status RUNNING.")
    eta = serializers.FloatField(allow_null=True, help_text="Seconds left at the pace so far.")
    best_value = serializers.FloatField(allow_null=True)
    best_trial_id = serializers.CharField(allow_null=True)
    best_sequence_id = serializers.IntegerField(allow_null=True, help_text="Of that trial, in its experiment.")


class CodeFromGitSerializer(serializers.Serializer[Any]):
    """Code that the worker fetches."""

    url = serializers.CharField()
    ref = serializers.CharField(help_text="Branch, tag or commit; \"\" for the default branch.")
    folder = serializers.CharField(help_text="\"\" for the whole repository.")
    commit = serializers.CharField(default=None, allow_null=True, help_text="What it was when it was fetched.")


class ExperimentSummarySerializer(serializers.Serializer[Any]):
    """An experiment in a list."""

    id = serializers.CharField(source="public_id")
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=ExperimentStatus.choices)
    target = serializers.ChoiceField(choices=ExperimentTarget.choices, help_text="What is wanted of it.")
    message = serializers.SerializerMethodField(
        help_text="Why it is as it is, where there is something to say; also that no worker is there.")
    owner = serializers.CharField(source="owner.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.name", allow_null=True, default=None,
                                  help_text="Whose members see and steer it too.")
    cluster = serializers.CharField(source="cluster.name")
    platform = serializers.CharField(source="cluster.platform")
    tags = serializers.ListField(child=serializers.CharField())
    archived = serializers.BooleanField()
    optimize_mode = serializers.ChoiceField(choices=Experiment.OptimizeMode.choices)
    trial_concurrency = serializers.IntegerField()
    max_trial_number = serializers.IntegerField(allow_null=True)
    max_duration = serializers.FloatField(allow_null=True, help_text="Seconds in status RUNNING.")
    max_trial_duration = serializers.FloatField(allow_null=True, help_text="Seconds of one trial.")
    code_git = CodeFromGitSerializer(allow_null=True, help_text="null where the code does not come from a repository.")
    progress = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    changed_at = serializers.DateTimeField(allow_null=True, help_text="When the revision last grew.")
    revision = serializers.IntegerField(help_text="Grows with each change of the experiment or its trials.")

    @extend_schema_field({"type": "string"})
    def get_message(self, experiment: Experiment) -> str:
        return str(self.context["explanations"][experiment.pk])

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, experiment: Experiment) -> dict[str, Any]:
        progress: Progress = self.context["progress"][experiment.pk]
        return dict(ProgressSerializer(progress).data)


class ExperimentSerializer(ExperimentSummarySerializer):
    """An experiment with everything that was said about it."""

    description = serializers.CharField()
    notes = serializers.ListField(child=serializers.CharField(), help_text="How the config file was understood.")
    search_space = serializers.DictField()
    tuner = serializers.DictField()
    assessor = serializers.DictField(allow_null=True)
    seed = serializers.IntegerField()
    trial_command = serializers.CharField()
    trial_gpu_number = serializers.IntegerField(allow_null=True)
    code_folder = serializers.CharField(help_text="On the server; \"\" where the code was uploaded.")
    code_sha256 = serializers.CharField(source="code.sha256", allow_null=True, default=None)
    config = serializers.DictField(help_text="What the config was resolved to, in NNI's v2 spelling.")
    config_text = serializers.CharField(help_text="The config as it was given, secrets struck out.")


#: Columns a list does not show: they can be large.
NOT_IN_LISTS = ("description", "notes", "search_space", "tuner", "assessor", "config", "config_text")


def summaries(experiments: Iterable[Experiment], now: datetime | None = None) -> list[dict[str, Any]]:
    """The documents of a page of experiments, whose progress is asked for at once."""
    page = list(experiments)
    return list(ExperimentSummarySerializer(page, many=True, context=_context(page, now or timezone.now())).data)


def document(experiment: Experiment, now: datetime | None = None) -> dict[str, Any]:
    """The whole document of one experiment."""
    return dict(ExperimentSerializer(experiment, context=_context([experiment], now or timezone.now())).data)


def _context(experiments: list[Experiment], now: datetime) -> dict[str, Any]:
    progress = progress_of(experiments, now)
    return {"progress": progress, "explanations": explanations_of(experiments, progress, now)}


class ExperimentChangesSerializer(StrictSerializer):
    """What can be changed, also while it runs. Trials that exist are never ended by it."""

    name = serializers.CharField(max_length=200, required=False)
    description = serializers.CharField(allow_blank=True, max_length=100_000, required=False)
    tags = TagsField(required=False)
    archived = serializers.BooleanField(required=False)
    group = OwnGroupField(allow_null=True, required=False)
    owner = serializers.CharField(max_length=150, required=False, help_text=(
        "User name: hand it over, as its owner or an administrator."))
    trial_concurrency = serializers.IntegerField(min_value=1, max_value=MOST, required=False)
    max_trial_number = serializers.IntegerField(min_value=1, max_value=LARGEST_COUNT, allow_null=True, required=False)
    max_duration = DurationField(allow_null=True, required=False, help_text="Seconds, or text such as \"90m\".")
    max_trial_duration = DurationField(allow_null=True, required=False, help_text="Seconds, or text such as \"90m\".")
    search_space = serializers.DictField(required=False)
    search_space_text = serializers.CharField(required=False, max_length=LONGEST_TEXT, help_text=(
        "Instead of search_space: its JSON as a person typed it. What is wrong then has its line."))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "search_space" in attrs and "search_space_text" in attrs:
            raise serializers.ValidationError({"search_space_text": "cannot be given beside search_space."})
        return attrs
