"""Experiments: list, launch, look, change, steer, delete."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics, serializers, status
from rest_framework.exceptions import PermissionDenied
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from nniweb.api.experiments.launch_request import (
    LAUNCH_KEY,
    LONGEST_KEY,
    LaunchRequestSerializer,
    UploadSerializer,
    check_from,
    launch_from,
)
from nniweb.documents.experiments import (
    NOT_IN_LISTS,
    ExperimentChangesSerializer,
    ExperimentSerializer,
    ExperimentSummarySerializer,
    NewLimitsSerializer,
    document,
    for_a_list,
    summaries,
)
from nniweb.documents.launch_check import CheckedLaunchSerializer, check_document
from nniweb.documents.tags import with_tag
from nniweb.experiments.access.visibility import may_dispose, people_to_hand_to, visible_experiments
from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.actions.imported_results import import_results
from nniweb.experiments.config.search_space.search_space_text import read_search_space_text
from nniweb.experiments.models import Experiment, User
from nniweb.experiments.models.experiment import ExperimentStatus
from nniweb.experiments.queries.list_states import ListState, is_in
from nniweb.experiments.sql.json_values import HasItem
from nniweb.http import dry_run
from nniweb.http.dry_run import unless_dry_run
from nniweb.http.error_form import ErrorsSerializer
from nniweb.http.fields import CommaListField, OneOfField, Query
from nniweb.http.parsers import JSONParser
from nniweb.http.permissions import signed_in_user
from nniweb.tuning import algorithms
from nniweb.tuning.search_space.problem import InvalidInput
from trainingservice.words.shown_value import shown

#: Name of an order -> column.
ORDERS = {"created": "created_at", "started": "started_at", "ended": "ended_at", "changed": "changed_at",
          "name": "name", "status": "status", "cluster": "cluster__name", "owner": "owner__username"}


class ExperimentQuery(Query):
    status = CommaListField(child=OneOfField(choices=ExperimentStatus.choices), required=False,
                            help_text="One or several.")
    owner = serializers.CharField(required=False, help_text="User name.")
    cluster = serializers.CharField(required=False, help_text="Name of a cluster.")
    tag = serializers.CharField(required=False)
    state = OneOfField(choices=[state.value for state in ListState], required=False, help_text=(
        "running: not ended. done: ended. attention: ended with an error or with nothing but failed trials, or not "
        "ended on a cluster that is in trouble or disabled."))
    q = serializers.CharField(required=False, help_text=(
        "Text in the name, description, owner or cluster, a whole tag, or the start of the id."))
    archived = OneOfField(choices=["false", "true", "all"], default="false")
    order = OneOfField(choices=[*ORDERS, *(f"-{name}" for name in ORDERS)], default="-created")


class ExperimentView(generics.GenericAPIView[Experiment]):
    """An experiment the person may see, by its public id; 404 otherwise."""

    serializer_class: type[Any] = ExperimentSerializer
    lookup_field = "public_id"
    lookup_url_kwarg = "experiment_id"

    def get_queryset(self) -> QuerySet[Experiment]:
        return visible_experiments(signed_in_user(self.request)).select_related("owner", "group", "cluster", "code")

    def fresh(self, experiment: Experiment) -> dict[str, Any]:
        return document(self.get_queryset().get(pk=experiment.pk))


class ExperimentsView(generics.GenericAPIView[Experiment]):
    takes_code = True
    serializer_class = ExperimentSummarySerializer
    parser_classes = [JSONParser, MultiPartParser]

    @extend_schema(operation_id="experiments_list", parameters=[ExperimentQuery],
                   responses=ExperimentSummarySerializer(many=True))
    def get(self, request: Request) -> Response:
        """Experiments that you may see, newest first."""
        wanted = ExperimentQuery.of(request)
        experiments = filtered(visible_experiments(signed_in_user(request)), wanted)
        page = self.paginate_queryset(in_order(for_a_list(experiments), wanted["order"]))
        return self.get_paginated_response(summaries(page or []))

    @extend_schema(operation_id="experiments_create",
                   parameters=[OpenApiParameter(
                       LAUNCH_KEY, {"type": "string", "maxLength": LONGEST_KEY, "pattern": "^[ -~]*$"},
                       OpenApiParameter.HEADER, description=(
                           "A text of your choice that identifies this launch. If no answer arrives, send the same "
                           "request with the same text again. The experiment is launched only once; status 200 means "
                           "that it was launched before."))],
                   request={"application/json": LaunchRequestSerializer, "multipart/form-data": UploadSerializer},
                   responses={200: ExperimentSerializer, 201: ExperimentSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """Launch an experiment: from a config file's text, from its fields, or from a form with the code as a file."""
        experiment, is_new = launch_from(request, signed_in_user(request))
        return Response(document(experiment), status=status.HTTP_201_CREATED if is_new else status.HTTP_200_OK)


def filtered(experiments: QuerySet[Experiment], wanted: dict[str, Any]) -> QuerySet[Experiment]:
    """Those that fit a checked query: status, owner, cluster, tag, text."""
    if statuses := wanted.get("status"):
        experiments = experiments.filter(status__in=statuses)
    if "owner" in wanted:
        experiments = experiments.filter(owner__username=wanted["owner"])
    if "cluster" in wanted:
        experiments = experiments.filter(cluster__name=wanted["cluster"])
    if "tag" in wanted:
        experiments = with_tag(experiments, wanted["tag"])
    if "q" in wanted:
        text = wanted["q"]
        experiments = experiments.filter(Q(name__icontains=text) | Q(description__icontains=text)
                                         | Q(owner__username__icontains=text) | Q(cluster__name__icontains=text)
                                         | Q(public_id__startswith=text) | Q(foreign_id__startswith=text)
                                         | Q(HasItem("tags", text)))
    if "state" in wanted:
        experiments = experiments.filter(is_in(ListState(wanted["state"])))
    if wanted["archived"] != "all":
        experiments = experiments.filter(archived=wanted["archived"] == "true")
    return experiments


def in_order(experiments: QuerySet[Experiment], order: str) -> QuerySet[Experiment]:
    """Sorted by one of ``ORDERS``, falling after a minus; rows without a value come last."""
    column = F(ORDERS[order.removeprefix("-")])
    falling = order.startswith("-")
    return experiments.order_by(column.desc(nulls_last=True) if falling else column.asc(nulls_last=True),
                                "-pk" if falling else "pk")


class ExperimentCheckView(generics.GenericAPIView[Experiment]):
    takes_code = True
    serializer_class = CheckedLaunchSerializer
    parser_classes = [JSONParser, MultiPartParser]

    @extend_schema(operation_id="experiments_check",
                   request={"application/json": LaunchRequestSerializer, "multipart/form-data": UploadSerializer},
                   responses={200: CheckedLaunchSerializer, 400: ErrorsSerializer})
    def post(self, request: Request) -> Response:
        """The errors that a launch would find, and its effects. Accepts the request of a launch; creates nothing."""
        return Response(check_document(*check_from(request, signed_in_user(request))))


def _canonical_tuner(given: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    """As experiments have it, for this one. Raises ValidationError where there is no such tuner."""
    try:
        name = algorithms.find_tuner(given["name"]).name
    except InvalidInput as invalid:
        raise serializers.ValidationError({"tuner": [problem.message for problem in invalid.problems]}) from None
    hears = {key: value for key, value in experiment.tuner.items() if key == "include_intermediate_results"}
    return {"name": name, "class_args": given.get("class_args", {}), **hears}


class ExperimentDetailView(ExperimentView):
    @extend_schema(operation_id="experiments_retrieve", responses=ExperimentSerializer)
    def get(self, request: Request, experiment_id: str) -> Response:
        """Everything about one experiment."""
        return Response(document(self.get_object()))

    @extend_schema(operation_id="experiments_change", request=ExperimentChangesSerializer,
                   responses={200: ExperimentSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def patch(self, request: Request, experiment_id: str) -> Response:
        """Change limits, concurrency, search space, tuner or texts. Raising a limit resumes a DONE experiment."""
        experiment, user = self.get_object(), signed_in_user(request)
        form = ExperimentChangesSerializer(data=request.data, context={"user": user})
        form.is_valid(raise_exception=True)
        changes = dict(form.validated_data)
        if "search_space_text" in changes:
            changes["search_space"] = read_search_space_text(changes.pop("search_space_text"),
                                                             is_uninterpreted=experiment.has_own_tuner)
        if "tuner" in changes:
            changes["tuner"] = _canonical_tuner(changes["tuner"], experiment)
        if "group" in changes:
            _must_dispose(user, experiment, "share it")
        with transaction.atomic():  # all of it or nothing
            if "group" in changes:
                intents.share(experiment, changes.pop("group"), user)
            if "owner" in changes:
                intents.hand_over(experiment, heir(user, experiment, changes.pop("owner")), user)
            archived = changes.pop("archived", None)
            if archived is not None and archived != experiment.archived:
                intents.set_archived(experiment, archived, user)
            if changes:
                change_and_undo.change(experiment, changes, user)
        # also where it is not theirs to see any more
        return Response(document(Experiment.objects.select_related("owner", "group", "cluster", "code").get(
            pk=experiment.pk)))

    @extend_schema(operation_id="experiments_delete", responses={204: None, 409: ErrorsSerializer})
    def delete(self, request: Request, experiment_id: str) -> Response:
        """Delete an experiment with its trials and their data on the platform. It must have ended. Only its owner and
        administrators can.
        """
        experiment, user = self.get_object(), signed_in_user(request)
        _must_dispose(user, experiment, "delete it")
        intents.delete(experiment, user)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _must_dispose(user: User, experiment: Experiment, wish: str) -> None:
    """Raises PermissionDenied unless it is the person's own, or the person an administrator."""
    if not may_dispose(user, experiment):
        owner = f"its owner ({experiment.owner.username})" if experiment.owner else "an administrator"
        raise PermissionDenied(f"Only the owner of an experiment and administrators can {wish}. Ask {owner}.")


def heir(user: User, experiment: Experiment, name: str) -> User:
    """Whom an experiment is handed over to. Raises ValidationError where this person may not, or not to that one."""
    if not may_dispose(user, experiment):
        raise serializers.ValidationError({"owner": "Only the owner of an experiment and administrators can hand it "
                                                    "over."})
    found = people_to_hand_to(user).filter(username=name).first()
    if found is None:
        raise serializers.ValidationError({"owner": f"You cannot hand the experiment over to {shown(name)}. You can "
                                                    "hand it "
                                                    "over to members of your groups; administrators can hand it over "
                                                    "to everybody."})
    return found


class ExperimentActionView(ExperimentView):
    """Writes what is wanted of an experiment; the worker makes it so, and the answer may still show the old status."""

    has_dry_run = True

    def act(self, request: Request, intent: Callable[[Experiment, User | None], None]) -> Response:
        experiment = self.get_object()
        with unless_dry_run(request):
            intent(experiment, signed_in_user(request))
            return Response(self.fresh(experiment))


class ExperimentPauseView(ExperimentActionView):
    @extend_schema(operation_id="experiments_pause", request=None, parameters=[dry_run.PARAMETER],
                   responses={200: ExperimentSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Pause an experiment. No new trials are started. Running trials continue to their end, or are frozen where its
        config file says `pause: freeze`.
        """
        return self.act(request, intents.pause)


class ExperimentFreezeView(ExperimentActionView):
    @extend_schema(operation_id="experiments_freeze", request=None, parameters=[dry_run.PARAMETER],
                   responses={200: ExperimentSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Pause an experiment and freeze its running trials: they save a checkpoint, end, and continue from there when
        the experiment is resumed.
        """
        return self.act(request, lambda experiment, user: intents.pause(experiment, user, freeze=True))


class ExperimentResumeView(ExperimentActionView):
    @extend_schema(operation_id="experiments_resume", request=NewLimitsSerializer, parameters=[dry_run.PARAMETER],
                   responses={200: ExperimentSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Resume an experiment that is paused, was stopped, failed, or is done but below its limits.

        New limits may be given. One that is done at its limit continues with a higher one.
        """
        form = NewLimitsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        changes = dict(form.validated_data)
        return self.act(request, lambda experiment, user: change_and_undo.resume_with(experiment, changes, user))


class ExperimentStopView(ExperimentActionView):
    @extend_schema(operation_id="experiments_stop", request=None, parameters=[dry_run.PARAMETER],
                   responses={200: ExperimentSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Stop an experiment and all its trials. Stopping an ended experiment has no effect."""
        return self.act(request, intents.stop)


class ExperimentRerunFailedView(ExperimentActionView):
    @extend_schema(operation_id="experiments_rerun_failed", request=None, parameters=[dry_run.PARAMETER],
                   responses={200: ExperimentSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Run all failed trials again as new trials, each only once; maxTrialNumber grows by their number."""
        return self.act(request, intents.rerun_failed)


class ImportedResultsSerializer(serializers.Serializer[Any]):
    results = serializers.JSONField(help_text='In the format that nnictl exports: [{"parameter": {...}, "value": 0.5}, '
                                              '...], or the export of an experiment in JSON.')


class ImportedSerializer(serializers.Serializer[Any]):
    imported = serializers.IntegerField(help_text="Number of results that were imported for the tuner.")


class ExperimentImportDataView(ExperimentView):
    @extend_schema(operation_id="experiments_import_data", request=ImportedResultsSerializer,
                   responses={200: ImportedSerializer, 400: ErrorsSerializer, 409: ErrorsSerializer})
    def post(self, request: Request, experiment_id: str) -> Response:
        """Import results from elsewhere for the tuner. They do not become trials and do not count for limits. The tuner
        of an experiment that has ended gets them when the experiment is resumed.
        """
        experiment = self.get_object()
        form = ImportedResultsSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        count = import_results(experiment, form.validated_data["results"], signed_in_user(request))
        return Response({"imported": count})


def experiment_of(request: Request, public_id: str) -> Experiment:
    """The experiment in the address of something that belongs to it. Raises Http404."""
    experiments = visible_experiments(signed_in_user(request)).defer(*NOT_IN_LISTS)
    return get_object_or_404(experiments, public_id=public_id)

