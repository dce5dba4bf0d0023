"""Chosen trials side by side: what they were given, what came of it, their curves in one chart."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.carried_selection import MOST_COMPARED
from nniweb.dashboard.experiment_tabs.head import experiment_of, result_title, tab
from nniweb.dashboard.experiment_tabs.overview import best_trials
from nniweb.dashboard.experiment_tabs.shown_variants import diffs_between
from nniweb.dashboard.words import digits_apart
from nniweb.documents.trials import TrialSerializer, with_details
from nniweb.experiments.downloads.export import flat
from nniweb.experiments.models import Experiment, Trial
from nniweb.experiments.results.other_metrics import mode_of, names_of

#: Trials of the choices that are offered where none were chosen.
_OFFERED = 5
#: Lines that are told apart by colour; after these the same colours come dashed, then dotted (nniweb.css).
CURVES = 8

FACTS = {"status": "Status", "result": "Result", "latest": "Latest", "intermediates": "Reports", "duration": "Duration",
         "machine": "Machine", "gpu": "GPU", "started": "Started", "ended": "Ended", "attempt": "Attempt",
         "exit_code": "Exit code", "tags": "Tags", "source": "Chosen by", "message": "Why"}
NUMBERS = ("result", "latest", "intermediates", "duration", "attempt", "exit_code")


@dataclass(frozen=True)
class Parameter:
    """A parameter's values, one for each trial; "" where it has none."""

    name: str
    values: list[Any]

    @cached_property
    def differs(self) -> bool:
        return len({json.dumps(value) for value in self.values}) > 1


@dataclass(frozen=True)
class MetricRow:
    """The final or the latest numbers of a further metric."""

    metric: str
    part: str
    #: maximize or minimize; None where the experiment does not say: none is the best.
    mode: str | None

    @property
    def name(self) -> str:
        return f"{'metrics' if self.part == 'final' else 'latest'}.{self.metric}"

    @property
    def title(self) -> str:
        return self.metric if self.part == "final" else f"{self.metric}, latest"


@require_GET
def compare(request: HttpRequest, public_id: str) -> HttpResponse:
    """The tab that compares chosen trials."""
    found = experiment_of(request, public_id)
    wanted, only = _words(request.GET.get("trials", "")), request.GET.get("only", "")
    if added := _words(request.GET.get("add", "")):
        return redirect(_address(found, [*wanted, *added], only))
    chosen = _chosen(found, wanted)
    shown = chosen[:MOST_COMPARED]
    trials = [dict(trial) for trial in
              TrialSerializer(shown, many=True, context={"now": timezone.now()}).data]
    ids = [trial["id"] for trial in trials]
    parameters = _parameters(trials)
    for place, trial in enumerate(trials):
        trial["curve"] = f"curve-{place % CURVES} line-{place // CURVES}"
        trial["without"] = _address(found, [other for other in ids if other != trial["id"]], only)
    return render(request, "dashboard/experiment/compare.html", {
        **tab(request, found, "experiment-compare", trials=ids, curves=CURVES),
        "trials": trials, "result_digits": digits_apart(trial["final_number"] for trial in trials),
        "ids": ",".join(ids), "parameters": parameters, "facts": _facts(found),
        "differing": [row for row in parameters if row.differs],
        "mode": found.optimize_mode, "metric_rows": _metric_rows(found, trials),
        "numbers": NUMBERS, "left_out": len(chosen) - len(shown), "most": MOST_COMPARED, "only": only,
        "code_diffs": diffs_between(shown) if shown else [],
        "missing": _missing(wanted, chosen), "offers": [] if trials else _offers(found)})


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))[:1000]


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10


def _chosen(experiment: Experiment, wanted: Sequence[str]) -> list[Trial]:
    """Those of these ids or numbers that the experiment has, each once, in the order they are given."""
    numbers = [int(word) for word in wanted if _is_number(word)]
    trials = list(with_details(Trial.objects.filter(
        Q(public_id__in=wanted) | Q(sequence_id__in=numbers), experiment=experiment)))
    by_word = {trial.public_id: trial for trial in trials} | {str(trial.sequence_id): trial for trial in trials}
    found = [by_word[word] for word in (str(int(word)) if _is_number(word) else word for word in wanted)
             if word in by_word]
    return list(dict.fromkeys(found))


def _missing(wanted: Sequence[str], chosen: Sequence[Trial]) -> list[str]:
    known = {trial.public_id for trial in chosen} | {str(trial.sequence_id) for trial in chosen}
    return [word for word in wanted if (str(int(word)) if _is_number(word) else word) not in known]


def _facts(experiment: Experiment) -> list[tuple[str, str]]:
    (status, *others) = {**FACTS, "result": result_title(experiment)}.items()
    if experiment.config.get("codeVariants"):
        others.append(("variant", "Changed code"))
    return [status, *([("front", "Front")] if experiment.has_several_objectives else []), *others]


def _metric_rows(experiment: Experiment, trials: Sequence[dict[str, Any]]) -> list[MetricRow]:
    """A row for every final and every latest number of a further metric that some of these trials have."""
    return [MetricRow(name, part, mode_of(experiment, name) if part == "final" else None)
            for part in ("final", "latest") for name in names_of(experiment)
            if any(trial["metrics"].get(name, {}).get(part) is not None for trial in trials)]


def _parameters(trials: Sequence[dict[str, Any]]) -> list[Parameter]:
    """Every parameter of these trials, nested ones with a dot: those that differ, then the others."""
    given = [flat(trial["parameters"]) for trial in trials]
    names = dict.fromkeys(name for values in given for name in values)
    rows = [Parameter(name, [values.get(name, "") for values in given]) for name in names]
    return sorted(rows, key=lambda row: not row.differs)


def _offers(experiment: Experiment) -> list[tuple[str, str]]:
    """What may be compared where nothing was chosen: words and address."""
    best = best_trials(experiment)
    newest = Trial.objects.filter(experiment=experiment).order_by("-sequence_id")
    offers = []
    for words, trials in (("The best", best), ("The newest", newest)):
        ids = list(trials.values_list("public_id", flat=True)[:_OFFERED])
        if len(ids) > 1:
            offers.append((f"{words} {len(ids)}", _address(experiment, ids)))
    return offers


def _address(experiment: Experiment, words: Sequence[str], only: str = "") -> str:
    query = {name: value for name, value in (("trials", ",".join(dict.fromkeys(words))), ("only", only)) if value}
    return f"{reverse('experiment-compare', args=[experiment.public_id])}?{urlencode(query, safe=',')}"
