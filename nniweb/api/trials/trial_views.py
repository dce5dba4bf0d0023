"""Trials: list those of an experiment, submit one, look, tag, cancel, run again; their metrics and histories."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.experiment_views import experiment_of
from nniweb.documents.places import place_of_trial
from nniweb.documents.trial_query import PROPOSALS, TrialQuery, by_proposal, filtered, in_order
from nniweb.documents.trials import (
    CheckedParametersSerializer,
    MetricSerializer,
    NewTrialSerializer,
    ParameterNoteSerializer,
    RerunSerializer,
    TrialChangesSerializer,
    TrialDetailSerializer,
    TrialEventSerializer,
    TrialParametersSerializer,
    TrialSerializer,
    advice_documents,
    note_of,
    with_details,
)
from nniweb.experiments.access.visibility import visible_trials
from nniweb.experiments.actions import freezing, intents
from nniweb.experiments.actions.given_variants import kept_variant
from nniweb.experiments.models import Attempt, Metric, Trial, TrialEvent, TrialParameters
from nniweb.experiments.queries.present_revisions import certain_upto
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import CommaListField, Query, RevisionField
from nniweb.http.permissions import signed_in_user
from nniweb.tuning.search_space.parser import parse_search_space
from nniweb.tuning.search_space.problem import InvalidInput
from trialkeeper import contract


class ExperimentTrialsView(generics.GenericAPIView[Trial]):
    serializer_class = TrialSerializer

    @extend_schema(operation_id="experiments_trials_list", parameters=[TrialQuery],
                   responses=TrialSerializer(many=True))
    def get(self, request: Request, experiment_id: str) -> Response:
        """Trials of an experiment, in order of sequence unless told otherwise."""
        wanted = TrialQuery.of(request)
        experiment = experiment_of(request, experiment_id)
        trials = filtered(experiment, wanted)
        if experiment.has_replicates and wanted["group"] == PROPOSALS:
            trials = by_proposal(experiment, trials, are_all=wanted.keys() == {"group", "order"})
        serializer = TrialSerializer(self._page(trials, wanted["order"]), many=True, context={"now": timezone.now()})
        return self.get_paginated_response(serializer.data)

    def _page(self, trials: QuerySet[Trial], order: str) -> Sequence[Trial]:
        """Where no index has the order, the keys alone are sorted: whole rows of 100,000 trials do not fit into the
        memory that PostgreSQL sorts in.
        """
        ordered = in_order(trials, order)
        if order.removeprefix("-") == "sequence_id":
            return self.paginate_queryset(with_details(ordered)) or []
        keys = self.paginate_queryset(ordered.values_list("pk", flat=True)) or []
        rows = {trial.pk: trial for trial in with_details(Trial.objects.filter(pk__in=keys))}
        return [rows[key] for key in keys if key in rows]

    @extend_schema(operation_id="experiments_trials_create", request=NewTrialSerializer,
                   responses={201: TrialSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Submit a trial with chosen parameters. It gets the next free slot, before trials of the tuner."""
        experiment = experiment_of(request, experiment_id)
        self.check_object_permissions(request, experiment)
        form = NewTrialSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        variant = kept_variant(experiment, form.validated_data.get("variant"))
        trial = intents.submit_trial(experiment, form.validated_data["parameters"], signed_in_user(request),
                                     variant=variant)
        return Response(document(trial.pk), status=status.HTTP_201_CREATED)


def document(trial_pk: int) -> dict[str, Any]:
    """The document of one trial, as its rows are now."""
    trial = with_details(Trial.objects.filter(pk=trial_pk)).get()
    return dict(TrialSerializer(trial, context={"now": timezone.now()}).data)


class TrialView(generics.GenericAPIView[Trial]):
    """A trial the person may see, by its public id; 404 otherwise."""

    serializer_class: type[Any] = TrialSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "trial_id"

    def get_queryset(self) -> QuerySet[Trial]:
        return visible_trials(signed_in_user(self.request)).select_related("experiment")


class TrialDetailView(TrialView):
    @extend_schema(operation_id="trials_retrieve", responses=TrialDetailSerializer)
    def get(self, request: Request, trial_id: str) -> Response:
        """One trial, and advice if it waits or failed."""
        return Response(_detail(self.get_object().pk))

    @extend_schema(operation_id="trials_change", request=TrialChangesSerializer,
                   responses={200: TrialDetailSerializer, 400: ErrorsSerializer})
    def patch(self, request: Request, trial_id: str) -> Response:
        """Change its tags or notes."""
        trial = self.get_object()
        form = TrialChangesSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        with transaction.atomic():
            if "tags" in wanted:
                intents.tag_trial(trial, wanted["tags"])
            if "notes" in wanted:
                intents.write_note(trial, wanted["notes"], signed_in_user(request))
        return Response(_detail(trial.pk))


def _detail(trial_pk: int) -> dict[str, Any]:
    return {**document(trial_pk), "advice": advice_documents(trial_pk), "notes": note_of(trial_pk),
            "place": place_of_trial(trial_pk)}


class TrialCancelView(TrialView):
    @extend_schema(operation_id="trials_cancel", request=None, responses=TrialSerializer)
    def post(self, request: Request, trial_id: str) -> Response:
        """End a trial. An ended trial is not changed."""
        trial = self.get_object()
        intents.cancel_trial(trial, signed_in_user(request))
        return Response(document(trial.pk))


class TrialFreezeView(TrialView):
    @extend_schema(operation_id="trials_freeze", request=None, responses={200: TrialSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, trial_id: str) -> Response:
        """Freeze a trial: it saves a checkpoint and ends, and continues from there when it is thawed. An ended trial is
        not changed, nor one that is being stopped.
        """
        trial = self.get_object()
        freezing.freeze_trials(trial.experiment, [trial.pk], signed_in_user(request))
        return Response(document(trial.pk))


class TrialThawView(TrialView):
    @extend_schema(operation_id="trials_thaw", request=None, responses=TrialSerializer)
    def post(self, request: Request, trial_id: str) -> Response:
        """Have a frozen trial continue as soon as there is a free slot. Another trial is not changed."""
        trial = self.get_object()
        freezing.thaw_trials(trial.experiment, [trial.pk], signed_in_user(request))
        return Response(document(trial.pk))


class TrialRefreshView(TrialView):
    @extend_schema(operation_id="trials_refresh", request=None,
                   responses={202: TrialSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, trial_id: str) -> Response:
        """Have its platform asked about its job now. The answer says that this is due; ``refresh.answered_at`` of the
        trial is later than now when it was done, and its status is what the platform said.
        """
        trial = self.get_object()
        intents.refresh_trial(trial, signed_in_user(request))
        return Response(document(trial.pk), status=status.HTTP_202_ACCEPTED)


class TrialRerunView(TrialView):
    @extend_schema(operation_id="trials_rerun", request=RerunSerializer,
                   responses={201: TrialSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, trial_id: str) -> Response:
        """Run a trial again as a new trial with the same or other parameters and code. It counts towards
        maxTrialNumber. Where that is reached, it grows by one, and an experiment that is DONE goes on with this trial.
        """
        trial = self.get_object()
        form = RerunSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        variant = {"variant": kept_variant(trial.experiment, wanted["variant"])} if "variant" in wanted else {}
        again = intents.rerun_trial(trial, signed_in_user(request), wanted.get("parameters"), **variant)
        return Response(document(again.pk), status=status.HTTP_201_CREATED)


class TrialCheckParametersView(TrialView):
    pagination_class = None

    @extend_schema(operation_id="trials_check_parameters", request=CheckedParametersSerializer,
                   responses={200: ParameterNoteSerializer(many=True), 400: ErrorsSerializer})
    def post(self, request: Request, trial_id: str) -> Response:
        """The parameters that are outside of the experiment's search space. A trial may use them nevertheless."""
        experiment = self.get_object().experiment
        form = CheckedParametersSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        try:
            space = parse_search_space(experiment.search_space)
        except InvalidInput:  # one that only a tuner of the user's own can read
            return Response([])
        return Response([{"field": problem.path, "message": problem.message}
                         for problem in space.problems_with(form.validated_data["parameters"])])


def trial_of(request: Request, public_id: str) -> Trial:
    """The trial in the address of something that belongs to it. Raises Http404."""
    return get_object_or_404(visible_trials(signed_in_user(request)), public_id=public_id)


def attempt_of(trial: Trial, number: int | None) -> Attempt | None:
    """The attempt of this number, or the latest; None before the first. Raises NotFound for a wrong number."""
    attempts = Attempt.objects.filter(trial=trial).order_by("-number").only("number", "stage")
    if number is not None:
        attempts = attempts.filter(number=number)
    attempt = attempts.first()
    if attempt is None and number is not None:
        raise NotFound(f"The trial has no attempt {number}.")
    return attempt


class MetricQuery(Query):
    kind = CommaListField(child=serializers.ChoiceField(choices=list(contract.METRIC_KINDS)), required=False)
    since_revision = RevisionField(required=False, help_text="Only metrics stored after this revision.")


@extend_schema(parameters=[MetricQuery])
class TrialMetricsView(generics.ListAPIView[Metric]):
    """What a trial reported, in the order in which it did. Charts take the last one of each sequence."""

    serializer_class = MetricSerializer
    queryset = Metric.objects.none()

    def get_queryset(self) -> QuerySet[Metric]:
        wanted = MetricQuery.of(self.request)
        trial = trial_of(self.request, self.kwargs["trial_id"])
        metrics = Metric.objects.filter(attempt__trial=trial)
        if kinds := wanted.get("kind"):
            metrics = metrics.filter(kind__in=kinds)
        if "since_revision" in wanted:
            metrics = metrics.filter(revision__gt=wanted["since_revision"])
            if (upto := certain_upto(trial.experiment_id)) is not None:
                metrics = metrics.filter(revision__lte=upto)
        return metrics.select_related("attempt").only(
            "attempt__number", "attempt__first_sequence", "n", "kind", "sequence", "value", "number", "parameter_id",
            "recorded_at", "revision").order_by("attempt__number", "n")


class TrialEventsView(generics.ListAPIView[TrialEvent]):
    """What happened to a trial and why, oldest first."""

    serializer_class = TrialEventSerializer
    queryset = TrialEvent.objects.none()

    def get_queryset(self) -> QuerySet[TrialEvent]:
        trial = trial_of(self.request, self.kwargs["trial_id"])
        return TrialEvent.objects.filter(trial=trial).select_related("actor").order_by("pk")


class TrialParametersView(generics.ListAPIView[TrialParameters]):
    """The parameter sets a trial was given."""

    serializer_class = TrialParametersSerializer
    queryset = TrialParameters.objects.none()

    def get_queryset(self) -> QuerySet[TrialParameters]:
        return TrialParameters.objects.filter(
            trial=trial_of(self.request, self.kwargs["trial_id"])).select_related("trial__experiment").order_by("index")
