"""One call for many trials: stop, freeze and thaw them, run them again, tag them; chosen by ids or by what they are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.documents.trial_query import TrialFilters, filtered
from nniweb.experiments.actions import freezing, intents
from nniweb.experiments.models import Experiment, Trial, User
from nniweb.http import dry_run
from nniweb.http.dry_run import unless_dry_run
from nniweb.http.error_form import Conflict, ErrorsSerializer
from nniweb.http.fields import StrictSerializer, TagsField
from nniweb.http.permissions import signed_in_user
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.shown_value import shown

#: Trials that one call changes at most.
MOST = 10_000
#: So many are changed in one transaction, so that keepers' reports are not kept waiting.
_AT_ONCE = 1000
#: Ids of trials that an answer names at most: of those that it was done to, and for each reason.
_MOST_NAMED = 1000


class SelectionSerializer(StrictSerializer):
    """Which trials: either by their ids or by filters. At most 10,000 in one call."""

    trials = serializers.ListField(child=serializers.CharField(max_length=12), required=False, max_length=MOST,
                                   help_text="Ids.")
    fitting = TrialFilters(required=False, help_text=(
        "All trials that match these filters, which are those of the list of trials; {} selects all trials."))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("trials" in attrs) == ("fitting" in attrs):
            raise serializers.ValidationError({"trials": "Give either `trials` or `fitting`."})
        return attrs


class TagSelectionSerializer(SelectionSerializer):
    add = TagsField(default=list)
    remove = TagsField(default=list)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs["add"] and not attrs["remove"]:
            raise serializers.ValidationError({"add": "Give tags to `add` or to `remove`."})
        if both := set(attrs["add"]) & set(attrs["remove"]):
            raise serializers.ValidationError({"add": f"{shown(sorted(both)[0])} cannot be both added and removed."})
        return super().validate(attrs)


class NotDoneSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField()
    count = serializers.IntegerField()
    trials = serializers.ListField(child=serializers.CharField(), help_text=f"Ids, the first {_MOST_NAMED}.")


class OutcomeSerializer(serializers.Serializer[Any]):
    """The trials that were changed, and the reasons for the others."""

    done = serializers.IntegerField(help_text="Number of trials that were changed.")
    trials = serializers.ListField(child=serializers.CharField(), help_text=(
        f"The ids of the first {_MOST_NAMED} of them; for a rerun, the ids of the new trials."))
    not_done = NotDoneSerializer(many=True)


@dataclass
class _Chosen:
    """Primary key -> id and status of the trials that were meant, in order of sequence."""

    trials: dict[int, tuple[str, str]]
    not_done: dict[str, list[str]] = field(default_factory=dict)
    #: Of those that were not even read.
    more_not_done: dict[str, int] = field(default_factory=dict)

    def chunks(self) -> Iterator[Sequence[int]]:
        keys = list(self.trials)
        for start in range(0, len(keys), _AT_ONCE):
            yield keys[start:start + _AT_ONCE]

    def not_to(self, trial_id: str, reason: str) -> None:
        self.not_done.setdefault(reason, []).append(trial_id)

    def outcome(self, done: Sequence[str]) -> dict[str, Any]:
        reasons = dict.fromkeys([*self.not_done, *self.more_not_done])
        return {"done": len(done), "trials": done[:_MOST_NAMED], "not_done": [
            {"reason": reason, "trials": self.not_done.get(reason, [])[:_MOST_NAMED],
             "count": len(self.not_done.get(reason, [])) + self.more_not_done.get(reason, 0)} for reason in reasons]}


ENDED = "The trial had already ended."
ENDING = "The trial was already being ended."


def _choose(experiment: Experiment, wanted: dict[str, Any], *, unfinished: bool = False) -> _Chosen:
    """The trials that are meant; with ``unfinished`` the ended ones are only counted. Raises Conflict."""
    columns = ("pk", "public_id", "status")
    if "trials" in wanted:
        ids = dict.fromkeys(wanted["trials"])
        rows = list(Trial.objects.filter(experiment=experiment, public_id__in=ids).order_by("sequence_id")
                    .values_list(*columns))
        chosen = _Chosen({pk: (public_id, status) for pk, public_id, status in rows})
        for trial_id in ids.keys() - {public_id for _, public_id, _ in rows}:
            chosen.not_to(trial_id, "The experiment has no such trial.")
        return chosen
    fitting = filtered(experiment, wanted["fitting"])
    going_on = Trial.objects.unfinished().filter(experiment=experiment)
    meant = fitting.filter(pk__in=going_on) if unfinished else fitting
    rows = list(meant.order_by("sequence_id").values_list(*columns)[:MOST + 1])
    if len(rows) > MOST:
        raise Conflict(f"More than {MOST:,} trials match, and one request changes at most that many. Narrow the "
                       f"filter, for example with number < {MOST}.")
    chosen = _Chosen({pk: (public_id, status) for pk, public_id, status in rows})
    if unfinished and (ended := fitting.count() - len(rows)) > 0:
        chosen.more_not_done[ENDED] = ended
    return chosen


class ManyTrialsView(generics.GenericAPIView[Experiment]):
    serializer_class: type[Any] = SelectionSerializer
    queryset = Experiment.objects.none()

    def read(self, request: Request, experiment_id: str) -> tuple[Experiment, dict[str, Any]]:
        """The experiment, which this person may change, and the checked body."""
        experiment = experiment_of(request, experiment_id)
        self.check_object_permissions(request, experiment)
        form = self.get_serializer(data=request.data)
        form.is_valid(raise_exception=True)
        return experiment, form.validated_data

    def each(self, request: Request, experiment_id: str,
             intent: Callable[[Experiment, Sequence[int], User | None], set[int]], otherwise: str) -> Response:
        """Do it to the unfinished ones among the chosen trials. ``intent`` returns the primary keys of those that it
        changed; ``otherwise``: why it did not change one that has not ended.
        """
        experiment, wanted = self.read(request, experiment_id)
        chosen = _choose(experiment, wanted, unfinished=True)
        done: list[str] = []
        with unless_dry_run(request):
            for keys in chosen.chunks():
                changed = intent(experiment, keys, signed_in_user(request))
                for key in keys:
                    trial_id, status = chosen.trials[key]
                    if key in changed:
                        done.append(trial_id)
                    else:
                        chosen.not_to(trial_id, ENDED if TrialJobStatus(status).is_end else otherwise)
        return Response(chosen.outcome(done))


class StopManyView(ManyTrialsView):
    has_dry_run = True

    @extend_schema(operation_id="experiments_trials_stop", request=SelectionSerializer,
                   parameters=[dry_run.PARAMETER],
                   responses={200: OutcomeSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """End many trials. Ended trials are not changed. Repeating the request has no further effect."""
        return self.each(request, experiment_id, intents.cancel_trials, ENDING)


class FreezeManyView(ManyTrialsView):
    has_dry_run = True

    @extend_schema(operation_id="experiments_trials_freeze", request=SelectionSerializer,
                   parameters=[dry_run.PARAMETER],
                   responses={200: OutcomeSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Freeze many trials: they save a checkpoint and end, and continue when they are thawed."""
        return self.each(request, experiment_id, freezing.freeze_trials, "The trial was already frozen or being ended.")


class ThawManyView(ManyTrialsView):
    has_dry_run = True

    @extend_schema(operation_id="experiments_trials_thaw", request=SelectionSerializer,
                   parameters=[dry_run.PARAMETER],
                   responses={200: OutcomeSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Have many frozen trials continue as soon as there are free slots."""
        return self.each(request, experiment_id, freezing.thaw_trials, "The trial was not frozen.")


class RerunManyView(ManyTrialsView):
    @extend_schema(operation_id="experiments_trials_rerun", request=SelectionSerializer,
                   responses={200: OutcomeSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Run many trials again, each as a new trial; maxTrialNumber grows by as many.

        Not those that have not ended, nor those of which a rerun has not: asking twice makes no second one.
        """
        experiment, wanted = self.read(request, experiment_id)
        chosen = _choose(experiment, wanted)
        outcome = intents.rerun_trials(experiment, list(chosen.trials), signed_in_user(request))
        for trial in outcome.unfinished:
            chosen.not_to(trial.public_id, "The trial has not ended.")
        for trial in outcome.runs_again:
            chosen.not_to(trial.public_id, "The trial is already being run again.")
        return Response(chosen.outcome([trial.public_id for trial in outcome.again]))


class TagManyView(ManyTrialsView):
    serializer_class = TagSelectionSerializer

    @extend_schema(operation_id="experiments_trials_tag", request=TagSelectionSerializer,
                   responses={200: OutcomeSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Add tags to many trials and remove others. Their other tags stay."""
        experiment, wanted = self.read(request, experiment_id)
        chosen = _choose(experiment, wanted)
        done: list[str] = []
        for keys in chosen.chunks():
            tagged = intents.tag_trials(experiment, keys, wanted["add"], wanted["remove"])
            for key in keys:
                trial_id, _ = chosen.trials[key]
                if key in tagged:
                    done.append(trial_id)
                else:
                    chosen.not_to(trial_id, "The trial already had these tags.")
        return Response(chosen.outcome(done))
