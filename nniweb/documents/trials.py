"""What trials, their metrics and their histories look like over REST."""

import json
from datetime import datetime
from typing import Any

from django.db.models import F, Prefetch, Q, QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from nniweb.documents.places import PlaceSerializer
from nniweb.documents.reasons import reason_document
from nniweb.documents.variants import GivenVariantSerializer, VariantSerializer, variant_of
from nniweb.experiments.models import (
    Attempt,
    Metric,
    MetricNumber,
    Trial,
    TrialEvent,
    TrialFile,
    TrialNote,
    TrialParameters,
)
from nniweb.experiments.models.proposal import ProposalState
from nniweb.experiments.models.trial import TRIAL_STATUSES, TrialSource, TrialTarget
from nniweb.experiments.queries.trial_advice import PLACES, advice_for
from nniweb.experiments.retention.policy import OF_TRIALS, removed_at
from nniweb.http.fields import StrictSerializer, TagsField
from nniweb.http.reason_serializer import ReasonSerializer
from nniweb.http.times import time_text

ATTEMPT_COLUMNS = ("trial_id", "number", "machine_name", "gpu_indices", "exit_code", "duration", "working_directory",
                   "url", "stage", "refresh_asked_at", "refreshed_at",
                   "refresh_problem", "cluster__name")


PROPOSAL_COLUMNS = ("first_sequence_id", "state", "begun", "wanted", "value_count", "failed_count", "mean",
                    "standard_error")

VARIANT_COLUMNS = ("sha256", "file_count", "changed_bytes", "storage_path", "removed_at")

#: Of a trial with several parameter sets the first ones, which lists show; its own address has them all.
MOST_SETS_SHOWN = 20


#: Characters of what people write about a trial.
LONGEST_NOTE = 20_000


def with_details(trials: QuerySet[Trial]) -> QuerySet[Trial]:
    """What ``TrialSerializer`` needs, in four queries however many trials there are."""
    return trials.select_related("experiment__cluster", "proposal", "continues", "variant").only(
        *(field.attname for field in Trial._meta.concrete_fields), "experiment__public_id",
        "experiment__cluster__name", "continues__public_id", "continues__sequence_id",
        *(f"variant__{column}" for column in VARIANT_COLUMNS),
        *(f"proposal__{column}" for column in PROPOSAL_COLUMNS)).prefetch_related(
        Prefetch("parameter_sets", TrialParameters.objects.filter(
            Q(index=0) | Q(value__isnull=False),
            Q(index__lt=MOST_SETS_SHOWN) | Q(index=F("trial__result_index"))), to_attr="shown_sets"),
        Prefetch("metric_numbers", MetricNumber.objects.select_related("metric"), to_attr="other_metrics"),
        Prefetch("attempts", Attempt.objects.select_related("cluster").only(*ATTEMPT_COLUMNS).order_by("number"),
                 to_attr="attempts_in_order"))


def last_attempt(trial: Trial) -> Attempt | None:
    attempts: list[Attempt] = trial.attempts_in_order  # type: ignore[attr-defined]  # of with_details
    return attempts[-1] if attempts else None


class MetricNumberSerializer(serializers.Serializer[Any]):
    """A further metric of a trial."""

    final = serializers.FloatField(allow_null=True, help_text="The value in the final result.")
    latest = serializers.FloatField(allow_null=True, help_text=(
        "The value in the latest intermediate result that has one."))


class RemovedSerializer(serializers.Serializer[Any]):
    """When retention removed what there was of a trial; null where it has not, or nothing was there."""

    output = serializers.DateTimeField(allow_null=True, help_text="The output.")
    readings = serializers.DateTimeField(allow_null=True, help_text="Intermediate results and resource samples.")
    files = serializers.DateTimeField(allow_null=True, help_text="Kept files.")


class RefreshSerializer(serializers.Serializer[Any]):
    """A wish to have the platform asked about the trial's job at once."""

    asked_at = serializers.DateTimeField(allow_null=True, help_text="When, while it is still to be done; else null.")
    answered_at = serializers.DateTimeField(allow_null=True, help_text="When it was done the last time.")
    message = serializers.CharField(help_text="Why the platform could not be asked then, \"\" where it answered.")
    reason = ReasonSerializer(allow_null=True)


class ParameterSetSerializer(serializers.Serializer[Any]):
    """A parameter set of a trial that has several, and its result."""

    index = serializers.IntegerField()
    parameters = serializers.DictField(allow_null=True)
    final_number = serializers.FloatField(allow_null=True)


class ProposalSerializer(serializers.Serializer[Any]):
    """The proposal that a trial is a replicate of."""

    first = serializers.IntegerField(help_text="Sequence number of its first trial; the filter's field proposal.")
    replicate = serializers.IntegerField(help_text="Index of this trial among its replicates, from 0.")
    seed = serializers.IntegerField(help_text="The seed that this trial was given.")
    state = serializers.ChoiceField(choices=ProposalState.choices, help_text=(
        "open: replicates run or are still to be started; complete: all have ended; dropped: ended after fewer, since "
        "it cannot be better than the best proposal any more, or gave no value."))
    begun = serializers.IntegerField(help_text="Replicates that were begun.")
    wanted = serializers.IntegerField(help_text="Replicates that are to be run.")
    value_count = serializers.IntegerField(help_text="Replicates whose values the mean is of.")
    failed_count = serializers.IntegerField(help_text="Replicates that failed.")
    mean = serializers.FloatField(allow_null=True, help_text=(
        "Mean of the results so far; null where fewer than half of those that ended have one."))
    standard_error = serializers.FloatField(allow_null=True, help_text="Of the mean; null with fewer than two values.")


class ContinuedTrialSerializer(serializers.Serializer[Any]):
    """The trial that another one continues."""

    id = serializers.CharField()
    sequence_id = serializers.IntegerField()


class TrialSerializer(serializers.Serializer[Any]):
    """A trial. Needs ``with_details`` and the present time in the context as ``now``."""

    id = serializers.CharField()
    experiment = serializers.CharField()
    sequence_id = serializers.IntegerField()
    status = serializers.ChoiceField(choices=TRIAL_STATUSES)
    target = serializers.ChoiceField(choices=TrialTarget.choices, help_text=(
        "What people, the tuner or limits want the trial to do. FROZEN, HELD, PREEMPTED: to save a checkpoint, end, "
        "and continue from there when it is thawed, when its experiment is resumed, when there is room."))
    source = serializers.ChoiceField(  # type: ignore[assignment]  # taken from the class before DRF's own name counts
        choices=TrialSource.choices, help_text="Who chose its parameters.")
    message = serializers.CharField(help_text="Why the trial waits or why it failed.")
    reason = ReasonSerializer(allow_null=True)
    parameters = serializers.DictField(allow_null=True, help_text=(
        "Of a trial with several parameter sets those of the best one, whose result is the trial's."))
    parameter_set_count = serializers.IntegerField(help_text=(
        "How many it was given; more than one in multi-phase experiments alone."))
    result_index = serializers.IntegerField(help_text="Which of them the parameters and the result are of.")
    parameter_sets = ParameterSetSerializer(many=True, help_text=(
        f"Where there are several, the first {MOST_SETS_SHOWN} and the best one; parameters/ has all."))
    proposal = ProposalSerializer(allow_null=True, help_text="null in experiments without replicates.")
    continues = ContinuedTrialSerializer(allow_null=True, help_text=(
        "The earlier trial with which this one goes on, from its latest checkpoint if there is one. Tuners decide it: "
        "Hyperband, BOHB, ASHA and PBT. null for other trials."))
    final_value = serializers.CharField(allow_null=True, help_text="JSON text, as the trial reported it.")
    final_number = serializers.FloatField(allow_null=True, help_text="The number in final_value that the tuner uses.")
    latest_number = serializers.FloatField(allow_null=True, help_text="The latest intermediate result.")
    metrics = serializers.DictField(child=MetricNumberSerializer(), help_text=(
        "The other numbers in its results, by name; for example latency in {\"default\": 0.9, \"latency\": 12}."))
    on_front = serializers.BooleanField(help_text=(
        "Whether the trial is on the Pareto front, if the experiment has several objectives."))
    feasible = serializers.BooleanField(allow_null=True, help_text=(
        "Whether its result satisfies the experiment's constraints on outcomes; null without a result or constraints."))
    intermediate_count = serializers.IntegerField()
    variant = VariantSerializer(allow_null=True, help_text="null: it runs the code of the experiment as it is.")
    tags = serializers.ListField(child=serializers.CharField())
    cluster = serializers.CharField(help_text="Where the latest attempt runs or ran; \"\" before the first.")
    machine = serializers.CharField()
    gpu_indices = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    attempt = serializers.IntegerField(help_text="Number of the latest attempt, 0 before the first.")
    url = serializers.CharField(help_text="The trial's page on the platform, if there is one.")
    created_at = serializers.DateTimeField()
    submitted_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    duration = serializers.FloatField(allow_null=True, help_text="In seconds; for a running trial, the time so far.")
    removed = RemovedSerializer()
    refresh = RefreshSerializer()
    revision = serializers.IntegerField(help_text="Revision of the experiment when the trial last changed.")

    def to_representation(self, trial: Trial) -> dict[str, Any]:
        """By hand: each list, page and frame is made of these, and field by field it takes four times as long."""
        attempt = last_attempt(trial)
        sets: list[TrialParameters] = trial.shown_sets  # type: ignore[attr-defined]  # of with_details
        of_result = next((one for one in sets if one.index == trial.result_index), None)
        several = sets if trial.parameter_set_count > 1 else []
        numbers: list[MetricNumber] = trial.other_metrics  # type: ignore[attr-defined]  # of with_details
        return {
            "id": trial.public_id, "experiment": trial.experiment.public_id, "sequence_id": trial.sequence_id,
            "status": trial.status, "target": trial.target, "source": trial.source, "message": trial.message,
            "reason": reason_document(trial.reason, trial.reason_arguments),
            "parameters": of_result.value if of_result else None,
            "parameter_set_count": trial.parameter_set_count, "result_index": trial.result_index,
            "parameter_sets": [{"index": one.index, "parameters": one.value, "final_number": one.final_number}
                               for one in several],
            "proposal": proposal_of(trial), "continues": continued_by(trial),
            "final_value": trial.final_value, "final_number": trial.final_number,
            "latest_number": trial.latest_number,
            "metrics": {row.metric.name: {"final": row.final, "latest": row.latest} for row in numbers},
            "on_front": trial.on_front, "feasible": None if trial.final_value is None else trial.feasible,
            "intermediate_count": trial.intermediate_count, "variant": variant_of(trial), "tags": trial.tags,
            "cluster": cluster_name(trial, attempt), "machine": attempt.machine_name if attempt else "",
            "gpu_indices": attempt.gpu_indices if attempt else None,
            "exit_code": attempt.exit_code if attempt else None, "attempt": attempt.number if attempt else 0,
            "url": attempt.url if attempt else "", "created_at": time_text(trial.created_at),
            "submitted_at": time_text(trial.submitted_at), "started_at": time_text(trial.started_at),
            "ended_at": time_text(trial.ended_at), "duration": duration_of(trial, self.context["now"]),
            "removed": {kind: time_text(removed_at(trial, kind)) for kind in OF_TRIALS},
            "refresh": refresh_of(attempt),
            "revision": trial.revision}


def cluster_name(trial: Trial, attempt: Attempt | None) -> str:
    """Where the attempt runs or ran."""
    if attempt is None:
        return ""
    return (attempt.cluster if attempt.cluster is not None else trial.experiment.cluster).name


def proposal_of(trial: Trial) -> dict[str, Any] | None:
    """What ``ProposalSerializer`` says."""
    proposal = trial.proposal
    if proposal is None:
        return None
    return {"first": proposal.first_sequence_id, "replicate": trial.replicate, "seed": trial.seed,
            "state": proposal.state, "begun": proposal.begun, "wanted": proposal.wanted,
            "value_count": proposal.value_count, "failed_count": proposal.failed_count, "mean": proposal.mean,
            "standard_error": proposal.standard_error}


def continued_by(trial: Trial) -> dict[str, Any] | None:
    """What ``ContinuedTrialSerializer`` says of the trial that this one continues."""
    before = trial.continues
    return None if before is None else {"id": before.public_id, "sequence_id": before.sequence_id}


def refresh_of(attempt: Attempt | None) -> dict[str, Any]:
    """What ``RefreshSerializer`` says, of the trial's last attempt."""
    if attempt is None:
        return {"asked_at": None, "answered_at": None, "message": "", "reason": None}
    asked_at = None if attempt.stage == Attempt.Stage.ENDED else attempt.refresh_asked_at
    return {"asked_at": time_text(asked_at), "answered_at": time_text(attempt.refreshed_at),
            **(attempt.refresh_problem or {"message": "", "reason": None})}


def duration_of(trial: Trial, now: datetime) -> float | None:
    """Seconds by the keeper's monotonic clock where it has said; until then, by the server's."""
    attempt = last_attempt(trial)
    if attempt is not None and attempt.duration is not None:
        return attempt.duration
    if trial.started_at is None:
        return None
    return max(0.0, ((trial.ended_at or now) - trial.started_at).total_seconds())


class NewTrialSerializer(StrictSerializer):
    """A trial with hand-picked parameters; they need not lie inside the search space."""

    parameters = serializers.DictField()
    variant = GivenVariantSerializer(required=False)


class RerunSerializer(StrictSerializer):
    parameters = serializers.DictField(required=False, help_text="The parameters of the trial if left out.")
    variant = GivenVariantSerializer(required=False, allow_null=True, help_text=(
        "The variant of the trial if left out; null: the code as it is."))


class CheckedParametersSerializer(StrictSerializer):
    parameters = serializers.DictField()


class ParameterNoteSerializer(serializers.Serializer[Any]):
    """Something about a parameter that a person should know."""

    field = serializers.CharField(help_text="Path of the parameter, with dots.")
    message = serializers.CharField()


class TrialChangesSerializer(StrictSerializer):
    tags = TagsField(required=False)
    notes = serializers.CharField(required=False, allow_blank=True, max_length=LONGEST_NOTE,
                                  help_text="Markdown; \"\" removes them.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError("Give tags, notes or both.")
        return attrs


class AdviceSerializer(serializers.Serializer[Any]):
    """What a person can do, or what will happen by itself."""

    message = serializers.CharField()
    look_at = serializers.ChoiceField(choices=[(place, place) for place in PLACES], allow_blank=True, help_text=(
        "Where to act or to find out more: the page of the experiment, the page of its cluster, the page for a clone "
        "of the experiment, or the trial's output; \"\" for none."))
    code = serializers.CharField(allow_blank=True, help_text=(
        "A code for programs; \"\" for advice that is only for people. keeper_not_heard: the trial runs, but its "
        "keeper has not called this server; the arguments are addresses (a list) and last_lines (text from its log)."))
    arguments = serializers.DictField(help_text="The arguments of the code.")


class TrialDetailSerializer(TrialSerializer):
    """A trial with what can be done about it and what people have written about it."""

    notes = serializers.CharField(help_text="Markdown; \"\" for none.")
    advice = AdviceSerializer(many=True)
    place = PlaceSerializer(allow_null=True, help_text=(
        "The warm place in which the latest attempt runs or ran (reuseMode); null where it has a job of its own."))


def note_of(trial_pk: int) -> str:
    """What people have written about it, "" for nothing."""
    return TrialNote.objects.filter(pk=trial_pk).values_list("text", flat=True).first() or ""


def advice_documents(trial_pk: int) -> list[dict[str, Any]]:
    """``trial_advice.advice_for`` as documents."""
    return list(AdviceSerializer(advice_for(trial_pk, timezone.now()), many=True).data)


class MetricSerializer(serializers.ModelSerializer[Metric]):
    """One thing a trial reported."""

    attempt = serializers.IntegerField(source="attempt.number")
    value = serializers.CharField(help_text="JSON text, as the trial reported it.")
    number = serializers.FloatField(allow_null=True, help_text="The finite number in it, if there is one.")
    parameter_id = serializers.SerializerMethodField()
    joined_sequence = serializers.SerializerMethodField()

    class Meta:
        model = Metric
        fields = ["attempt", "kind", "sequence", "joined_sequence", "value", "number", "parameter_id", "recorded_at",
                  "revision"]

    @extend_schema_field(OpenApiTypes.ANY)
    def get_parameter_id(self, metric: Metric) -> Any:
        return json.loads(metric.parameter_id)

    def get_joined_sequence(self, metric: Metric) -> int:
        """Its place in the trial's curve, where attempts that went on from a checkpoint are joined."""
        return (metric.attempt.first_sequence or 0) + metric.sequence


class TrialEventSerializer(serializers.ModelSerializer[TrialEvent]):
    """Something that happened to a trial."""

    actor = serializers.CharField(source="actor.username", allow_null=True, default=None)

    class Meta:
        model = TrialEvent
        fields = ["at", "kind", "message", "actor"]


class TrialParametersSerializer(serializers.ModelSerializer[TrialParameters]):
    """A set of parameters; more than one for multi-phase trials, each with its own result. Needs the trial loaded."""

    parameter_id = serializers.JSONField(allow_null=True)
    value = serializers.JSONField(allow_null=True, help_text=(
        "null where the trial asked for one more and the tuner had none."))
    final_value = serializers.SerializerMethodField(help_text="JSON text, as the trial reported it.")
    final_number = serializers.SerializerMethodField(help_text="The number in it that the tuner uses.")

    class Meta:
        model = TrialParameters
        fields = ["index", "parameter_id", "value", "final_value", "final_number"]

    def get_final_value(self, row: TrialParameters) -> str | None:
        value: str | None = row.final_value if has_results_of_sets(row.trial) else row.trial.final_value
        return value

    def get_final_number(self, row: TrialParameters) -> float | None:
        return row.final_number if has_results_of_sets(row.trial) else row.trial.final_number


def has_results_of_sets(trial: Trial) -> bool:
    """Whether results are kept with parameter sets: else the trial's one is its only set's."""
    return bool(trial.experiment.multi_phase)


class TrialFileSerializer(serializers.ModelSerializer[TrialFile]):
    """A file that was kept of a trial; ``files/<id>/`` gives its content."""

    attempt = serializers.IntegerField(source="attempt.number")

    class Meta:
        model = TrialFile
        fields = ["id", "attempt", "name", "size"]
