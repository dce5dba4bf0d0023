"""The calls of NNI's REST interface, one experiment each. Errors are ``{"error": "a sentence"}``, as NNI's are.

What changes something is an intent like a click on our own pages, and is answered before the worker has acted.
"""

import json
from typing import Any

from django.db.models import Count, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, ParseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from nniweb.documents.experiments import ExperimentChangesSerializer
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.actions.imported_results import import_results, imports_of
from nniweb.experiments.config import ConfigInvalid
from nniweb.experiments.config.yaml_positions import read_mapping
from nniweb.experiments.models import Experiment, Trial, TrialOutput
from nniweb.experiments.output.pieces import all_pieces
from nniweb.experiments.output.segments import OutputDamaged
from nniweb.http.attachment import SHOWN_AS_NOTHING
from nniweb.http.callers.authentication import SessionAuthentication, TokenAuthentication
from nniweb.http.error_form import answer_error
from nniweb.http.permissions import signed_in_user
from nniweb.http.renderers import ExactJSONRenderer
from nniweb.nniapi import documents, ports
from nniweb.storage.own_files import COMMAND
from trainingservice.rest.told_json import read_json
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.words.shown_value import shown
from trialkeeper import contract

#: update_type -> the names of its member in profiles, and the field here. nnictl up to 2.10 puts NNI 1's name beside
#: the one that we have answered, and means what it has put there.
UPDATES = {
    "TRIAL_CONCURRENCY": (("trialConcurrency",), "trial_concurrency"),
    "MAX_EXEC_DURATION": (("maxExecDuration", "maxExperimentDuration"), "max_duration"),
    "MAX_TRIAL_NUM": (("maxTrialNum", "maxTrialNumber"), "max_trial_number"),
    "SEARCH_SPACE": (("searchSpace",), "search_space"),
}
#: Names of files that NNI's clients ask for -> the stream that holds their text here.
STREAMS = {"trial.log": "stdout", "stdout": "stdout", "trial.stdout": "stdout", "stderr": "stderr",
           "trial.stderr": "stderr", "TRIAL_LOG": "stdout", "TRIAL_ERROR": "stderr"}


@extend_schema(exclude=True)
class NniView(APIView):
    """One experiment that the person may see, and steer where the call changes something."""

    authentication_classes = [ports.PortAuthentication, TokenAuthentication, SessionAuthentication]
    renderer_classes = [ExactJSONRenderer]

    def experiment(self) -> Experiment:
        found = get_object_or_404(visible_experiments(signed_in_user(self.request)).select_related("cluster", "owner"),
                                  public_id=self.kwargs["experiment_id"])
        self.check_object_permissions(self.request, found)
        return found

    def trials(self) -> QuerySet[Trial]:
        return documents.trials_of(self.experiment())

    def trial(self) -> Trial:
        return get_object_or_404(self.trials(), public_id=self.kwargs["trial_id"])

    @property
    def id_name(self) -> str:
        """What a trial's id is called: NNI 1 had another word."""
        return "id" if ports.is_of_nni_1(self.request) else "trialJobId"

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, APIException) and isinstance(exc.detail, str):
            response = exception_handler(exc, self.get_exception_handler_context())
            assert response is not None
            response.data = {"error": str(exc.detail)}
        else:
            response = answer_error(exc, self.get_exception_handler_context())
            response.data = {"error": " ".join(_sentence(error) for error in response.data["errors"])}
        response.exception = True
        return response


def _sentence(error: dict[str, Any]) -> str:
    return f"{error['field']}: {error['message']}" if error["field"] else str(error["message"])


def done() -> HttpResponse:
    """NNI answers what it has done with an empty body."""
    return HttpResponse(status=200, content_type="application/json")


class VersionView(NniView):
    def get(self, request: Request, experiment_id: str) -> HttpResponse:
        self.experiment()
        return HttpResponse(documents.NNI_VERSION, content_type="application/json; charset=utf-8")


class StatusView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        experiment = self.experiment()
        failed = experiment.status == "ERROR" and experiment.message
        return Response({"status": documents.nni_status(experiment), "errors": [experiment.message] if failed else []})


class ExperimentView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        return Response(documents.profile(self.experiment(), timezone.now()))

    def post(self, request: Request, experiment_id: str) -> Response:
        raise NotFound("This experiment was already started. Launch another experiment on the experiments page, or "
                       f"with {COMMAND} launch.")

    def put(self, request: Request, experiment_id: str) -> HttpResponse:
        experiment = self.experiment()
        kind = request.query_params.get("update_type", "")
        if kind not in UPDATES:
            raise ParseError(f"update_type must be one of {', '.join(UPDATES)}, not {shown(kind)}.")
        names, field = UPDATES[kind]
        params = request.data.get("params") if isinstance(request.data, dict) else None
        given = [params[name] for name in names if isinstance(params, dict) and name in params]
        if not given:
            raise ParseError(f"The profile in the body has no params.{names[-1]}.")
        value = given[0]
        if field == "search_space" and isinstance(value, str):  # as text in NNI 1
            value = _json(value)
        form = ExperimentChangesSerializer(data={field: value})
        form.is_valid(raise_exception=True)
        change_and_undo.change(experiment, dict(form.validated_data), signed_in_user(request))
        return done()

    def delete(self, request: Request, experiment_id: str) -> HttpResponse:
        experiment = self.experiment()
        intents.stop(experiment, signed_in_user(request))
        ports.stop_was_asked(experiment.public_id)
        return done()


class RegistryView(NniView):
    """This experiment alone: it is what a client of it may know of."""

    def entry(self) -> dict[str, Any]:
        experiment = self.experiment()
        return documents.registry_entry(experiment, *ports.port_and_pid(experiment.public_id))


class ExperimentMetadataView(RegistryView):
    def get(self, request: Request, experiment_id: str) -> Response:
        return Response(self.entry())


class ExperimentsInfoView(RegistryView):
    def get(self, request: Request, experiment_id: str) -> Response:
        return Response([self.entry()])


class NotHereView(NniView):
    """What a client of NNI may call and what is done otherwise here: the sentence says how."""

    sentence = ""

    def refuse(self, request: Request, experiment_id: str, **more: str) -> Response:
        self.experiment()
        raise NotFound(self.sentence)

    get = post = put = delete = refuse


class ClusterMetadataView(NotHereView):
    sentence = ("The platform of an experiment is set at the launch. Administrators set a cluster's metadata in the "
                "admin and over REST: PUT /api/v1/clusters/CLUSTER/metadata/KEY/.")


class ImportDataView(NniView):
    def post(self, request: Request, experiment_id: str) -> HttpResponse:
        import_results(self.experiment(), request.data, signed_in_user(request))
        return done()


class TensorboardView(NotHereView):
    sentence = "TensorBoard cannot be started here. Start it on the page of the experiment or of the trial."


class ImportedDataView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        """JSON text of the results of each import, which NNI keeps apart."""
        return Response([json.dumps(results) for results in imports_of(self.experiment())])


class JobStatisticsView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        counts = self.trials().order_by().values_list("status").annotate(count=Count("pk"))
        return Response([{"trialJobStatus": status, "trialJobNumber": count} for status, count in sorted(counts)])


class TrialJobsView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        trials = self.trials()
        if status := request.query_params.get("status"):
            # one that there is not may be a text that no database takes
            trials = trials.filter(status=status) if status in list(TrialJobStatus) else trials.none()
        return Response(list(documents.trial_documents(trials, self.id_name)))

    def post(self, request: Request, experiment_id: str) -> Response:
        experiment = self.experiment()
        if not isinstance(request.data, dict):
            raise ParseError("The body must be an object with the parameters of the trial.")
        trial = intents.submit_trial(experiment, request.data, signed_in_user(request))
        return Response({"sequenceId": trial.sequence_id})


class TrialJobView(NniView):
    def get(self, request: Request, experiment_id: str, trial_id: str) -> HttpResponse:
        found = list(documents.trial_documents(self.trials().filter(public_id=trial_id), self.id_name))
        return Response(found[0]) if found else done()  # NNI's answer to an unknown id is empty

    def delete(self, request: Request, experiment_id: str, trial_id: str) -> HttpResponse:
        intents.cancel_trial(self.trial(), signed_in_user(request))
        return done()


class MetricDataView(NniView):
    def get(self, request: Request, experiment_id: str, trial_id: str | None = None) -> Response:
        trials = self.trials() if trial_id is None else self.trials().filter(public_id=trial_id)
        metrics = documents.metrics_of(trials)
        if kind := request.query_params.get("type"):
            metrics = metrics.filter(kind=kind) if kind in contract.METRIC_KINDS else metrics.none()
        return Response(list(documents.metric_documents(metrics)))


class MetricRangeView(NniView):
    def get(self, request: Request, experiment_id: str, first: int, last: int) -> Response:
        trials = self.trials().filter(sequence_id__gte=first, sequence_id__lte=last)
        return Response(list(documents.metric_documents(documents.metrics_of(trials))))


class LatestMetricsView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        return Response(list(documents.latest_metrics(documents.metrics_of(self.trials()))))


class ExportView(NniView):
    def get(self, request: Request, experiment_id: str) -> Response:
        return Response(documents.export(self.experiment(), self.id_name))


class TrialFileView(NniView):
    def get(self, request: Request, experiment_id: str, trial_id: str, name: str) -> HttpResponse:
        trial, stream = self.trial(), STREAMS.get(name)
        if stream is None:
            raise NotFound(f"Only the files {', '.join(STREAMS)} of a trial can be read here. The trial's page has the "
                           "files that keepFiles names.")
        pieces = TrialOutput.objects.filter(attempt__trial=trial, stream=stream).order_by("attempt__number", "offset")
        try:
            text = b"".join(piece.data for piece in all_pieces(pieces))
        except OutputDamaged as damage:
            raise NotFound(str(damage)) from None
        return HttpResponse(text or f"{name} is empty.".encode(), content_type="text/plain; charset=utf-8",
                            headers=SHOWN_AS_NOTHING)


class NothingHereView(NniView):
    def get(self, request: Request, experiment_id: str, path: str) -> Response:
        self.experiment()
        raise NotFound(f"NNI's REST interface has nothing at {path}.")

    post = put = delete = get


def _json(text: str) -> Any:
    try:
        found = read_json(text)
        return read_mapping(found).data if isinstance(found, dict) else found
    except ConfigInvalid as invalid:
        raise serializers.ValidationError({"search_space": [error.message for error in invalid.errors]}) from None
    except ValueError:
        raise serializers.ValidationError({"search_space": "is no JSON."}) from None
