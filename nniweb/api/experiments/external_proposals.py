"""What a program needs that searches by itself: it proposes parameters, and reads what became of them."""

from collections.abc import Sequence
from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import ExperimentView
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.documents.variants import GivenVariantSerializer
from nniweb.experiments.actions.external_proposals import (
    MOST_AT_ONCE,
    Proposed,
    Told,
    counts_of,
    newest_place,
    propose,
    told_after,
    wanted,
)
from nniweb.experiments.actions.given_variants import kept_variants
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.models.trial import LONGEST_PROPOSAL_KEY
from nniweb.http import dry_run
from nniweb.http.dry_run import unless_dry_run
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import Query, StrictSerializer, TrueOrFalseField
from nniweb.http.permissions import signed_in_user


class NewProposalSerializer(StrictSerializer):
    parameters = serializers.DictField(help_text="A point of the search space.")
    key = serializers.CharField(required=False, max_length=LONGEST_PROPOSAL_KEY, help_text=(
        "The caller's name for the proposal, unique in the experiment. A proposal that is sent again under its key is "
        "not run again."))
    variant = GivenVariantSerializer(required=False)


class ProposalsRequestSerializer(StrictSerializer):
    """Parameter sets that become trials. All of them are taken, or none."""

    proposals = serializers.ListField(child=NewProposalSerializer(), default=list, max_length=MOST_AT_ONCE)
    complete = TrueOrFalseField(default=False, help_text=(
        "No more proposals follow: the experiment is DONE when its trials have ended."))

    def to_internal_value(self, data: Any) -> Any:
        try:
            return super().to_internal_value(data)
        except serializers.ValidationError as error:
            # as later refusals name them: proposals[0].variant
            if not (isinstance(error.detail, dict) and isinstance(by_place := error.detail.get("proposals"), dict)):
                raise
            others = {name: said for name, said in error.detail.items() if name != "proposals"}
            raise serializers.ValidationError(
                {**{f"proposals[{place}]": said for place, said in by_place.items()}, **others}) from None


class ProposalsSerializer(serializers.Serializer[Any]):
    """What an experiment with the tuner External waits for."""

    wanted = serializers.IntegerField(help_text="How many more proposals could run now.")
    proposed = serializers.IntegerField(help_text="Proposals so far.")
    waiting = serializers.IntegerField(help_text="Trials that wait for a slot.")
    running = serializers.IntegerField(help_text="Trials that run.")
    status = serializers.CharField(help_text="The experiment's.")


class TakenSerializer(serializers.Serializer[Any]):
    key = serializers.CharField(allow_null=True)
    is_new = serializers.BooleanField(help_text="false: the key was known, and the trial was there.")
    trial = TrialSerializer()


class TakenProposalsSerializer(ProposalsSerializer):
    trials = TakenSerializer(many=True, help_text="The trial of each proposal, in their order.")


class ResultsQuery(Query):
    after = serializers.IntegerField(default=-1, min_value=-1, help_text=(
        "`next` of an earlier answer; -1 for the first one."))


class ResultSerializer(serializers.Serializer[Any]):
    """The end of a trial (with replicates: of a proposal), or a result that was imported."""

    number = serializers.IntegerField(help_text="Its place in the history.")
    source = serializers.ChoiceField(  # type: ignore[assignment]  # taken from the class before DRF's own name counts
        choices=["tuner", "person", "import"], help_text=(
        "Who chose the parameters: the tuner or the program outside, a person, or somebody elsewhere."))
    trial = serializers.CharField(allow_null=True, help_text="Id.")
    sequence_id = serializers.IntegerField(allow_null=True, help_text="The trial's number in the experiment.")
    key = serializers.CharField(allow_null=True)
    parameters = serializers.JSONField()
    variant = serializers.CharField(allow_null=True, help_text=(
        "SHA-256 of the trial's variant of the code; null: it ran the code as it is."))
    status = serializers.CharField(help_text="How it ended: SUCCEEDED, FAILED, EARLY_STOPPED, USER_CANCELED ...")
    value = serializers.FloatField(allow_null=True, help_text=(
        "The number that is searched for; of several objectives the first one. null: it gave none."))
    values = serializers.ListField(child=serializers.FloatField(), allow_null=True, help_text=(
        "With several objectives one number for each."))
    violation = serializers.FloatField(help_text="How far it is from satisfying the constraints on outcomes.")
    replicates = serializers.IntegerField(allow_null=True, help_text="Of how many values it is the mean.")
    standard_error = serializers.FloatField(allow_null=True, help_text="Of the mean.")


class ResultsSerializer(serializers.Serializer[Any]):
    results = ResultSerializer(many=True)
    next = serializers.IntegerField(help_text="`after` of the next request.")
    has_more = serializers.BooleanField(help_text="Whether the next request finds more at once.")
    status = serializers.CharField(help_text="The experiment's.")


class ProposalsView(ExperimentView):
    pagination_class = None
    has_dry_run = True

    @extend_schema(operation_id="experiments_proposals", responses=ProposalsSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """How many proposals could run now, and how many there are."""
        return Response(_state(self.get_object()))

    @extend_schema(operation_id="experiments_propose", request=ProposalsRequestSerializer,
                   parameters=[dry_run.PARAMETER], responses={
        200: TakenProposalsSerializer, 201: TakenProposalsSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Propose parameters in an experiment whose tuner is External. Each proposal becomes a trial, and gets a slot
        in their order. 200: all of them were known.
        """
        experiment = self.get_object()
        form = ProposalsRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        entries = form.validated_data["proposals"]
        variants = kept_variants(experiment, {f"proposals[{place}].variant": entry["variant"]
                                               for place, entry in enumerate(entries) if "variant" in entry})
        given = [Proposed(entry["parameters"], entry.get("key"), variants.get(f"proposals[{place}].variant"))
                  for place, entry in enumerate(entries)]
        with unless_dry_run(request):
            found, new = propose(experiment, given, signed_in_user(request), complete=form.validated_data["complete"])
            answer = {"trials": _taken(given, found, new), **_state(Experiment.objects.get(pk=experiment.pk))}
        return Response(answer, status=status.HTTP_201_CREATED if new else status.HTTP_200_OK)


class ResultsView(ExperimentView):
    pagination_class = None

    @extend_schema(operation_id="experiments_results", parameters=[ResultsQuery], responses=ResultsSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """What the tuner was told, in order: ends of trials and imported results. With the tuner External it includes
        trials that a person submitted.
        """
        query = ResultsQuery.of(request)
        experiment = self.get_object()
        told, last, has_more = told_after(experiment, query["after"])
        if not told and last > (newest := newest_place(experiment)):
            raise serializers.ValidationError({"after": (
                f"is {last}, but the newest place in this experiment's history is {newest}. Give the `next` of an "
                "earlier answer of this experiment, or -1 to begin anew.")})
        return Response({"results": [_result(entry) for entry in told], "next": last, "has_more": has_more,
                         "status": experiment.status})


def _taken(given: Sequence[Proposed], found: Sequence[Trial], new: set[int]) -> list[dict[str, Any]]:
    """The trial of each proposal. ``new``: primary keys of those that were made now."""
    rows = with_details(Trial.objects.filter(pk__in=[trial.pk for trial in found]))
    shown = TrialSerializer(rows, many=True, context={"now": timezone.now()}).data
    documents = dict(zip([row.pk for row in rows], shown, strict=True))
    return [{"key": proposal.key, "is_new": trial.pk in new, "trial": documents[trial.pk]}
            for proposal, trial in zip(given, found, strict=True)]


def _state(experiment: Experiment) -> dict[str, Any]:
    return {"wanted": wanted(experiment), **counts_of(experiment), "status": experiment.status}


def _result(told: Told) -> dict[str, Any]:
    data, trial = told.data, told.trial
    source = "tuner" if data["number"] is not None else "person" if data.get("customized") else "import"
    return {"number": told.number, "source": source, "trial": None if trial is None else trial.public_id,
            "sequence_id": None if trial is None else trial.sequence_id, "key": told.key,
            "parameters": data["parameters"], "variant": data.get("variant"), "status": data["status"],
            "value": data["value"], "values": data.get("values"), "violation": data.get("violation", 0.0),
            "replicates": data.get("replicates"), "standard_error": data.get("standard_error")}
