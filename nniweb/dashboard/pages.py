"""The plain pages: experiments, their trials, one trial."""

from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from nniweb.experiments.models import Experiment, Metric, Trial, TrialOutput, User, Worker
from nniweb.experiments.visibility import visible_experiments
from nniweb.experiments.worker_presence import worker_is_alive
from trainingservice.trial_job_status import ENDS

PAGE_SIZE = 50
#: Bytes of a stream shown on the trial's page.
SHOWN_OUTPUT = 64 * 1024


def _visible(request: HttpRequest) -> QuerySet[Experiment]:
    assert isinstance(request.user, User)  # the middleware lets nobody else in
    return visible_experiments(request.user)


@require_GET
def experiments(request: HttpRequest) -> HttpResponse:
    found = _visible(request).select_related("cluster", "owner").annotate(
        ended_count=Count("trials", filter=Q(trials__status__in=[end.value for end in ENDS]))).order_by("-created_at")
    page = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page"))
    return render(request, "dashboard/experiments.html", {
        "page": page, "worker_is_alive": worker_is_alive(), "workers": Worker.objects.count()})


@require_GET
def experiment(request: HttpRequest, public_id: str) -> HttpResponse:
    found = get_object_or_404(_visible(request).select_related("cluster", "owner"), public_id=public_id)
    counts = dict(Trial.objects.filter(experiment=found).values_list("status").annotate(Count("pk")).order_by("status"))
    trials = Trial.objects.filter(experiment=found).prefetch_related("parameter_sets").order_by("-sequence_id")
    best_first = "-final_number" if found.optimize_mode == "maximize" else "final_number"
    with_result = Trial.objects.filter(experiment=found, final_number__isnull=False)
    best = with_result.order_by(best_first, "sequence_id").first()
    return render(request, "dashboard/experiment.html", {
        "experiment": found, "counts": counts, "best": best,
        "tuner": found.tuner.get("name") or found.tuner.get("class_name"),
        "page": Paginator(trials, PAGE_SIZE).get_page(request.GET.get("page"))})


@require_GET
def trial(request: HttpRequest, public_id: str) -> HttpResponse:
    found = Trial.objects.select_related("experiment__cluster").filter(
        public_id=public_id, experiment__in=_visible(request)).first()
    if found is None:
        raise Http404
    attempt = found.attempts.order_by("-number").first()
    metrics = list(Metric.objects.filter(attempt=attempt).order_by("n")[:1000]) if attempt else []
    return render(request, "dashboard/trial.html", {
        "trial": found, "experiment": found.experiment, "attempt": attempt, "metrics": metrics,
        "events": found.events.order_by("pk")[:200], "parameters": found.parameter_sets.first(),
        "streams": [(name, _tail(attempt, name)) for name in ("stdout", "stderr")]})


def _tail(attempt: Any, stream: str) -> str:
    """The last part of a stream as text."""
    pieces: list[bytes] = []
    size = 0
    for data in TrialOutput.objects.filter(attempt=attempt, stream=stream).order_by("-offset").values_list(
            "data", flat=True)[:64]:
        pieces.append(bytes(data))
        size += len(data)
        if size >= SHOWN_OUTPUT:
            break
    return b"".join(reversed(pieces))[-SHOWN_OUTPUT:].decode("utf-8", "replace")
