"""The address of an experiment's report."""

import base64
import hashlib
from pathlib import Path

from csp.decorators import csp_update
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

import nniweb
from nniweb.dashboard.experiment_tabs.head import experiment_of
from nniweb.dashboard.report.content import MOST_TRIALS, ReportContent
from nniweb.http.attachment import as_attachment

#: Part of the page, which has nothing beside it when it is opened as a file.
_STYLE = (Path(settings.BASE_DIR) / "templates" / "dashboard" / "report" / "report.css").read_text()
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()


@csp_update({"style-src": [f"'sha256-{_HASH}'"]})  # type: ignore[arg-type]  # its type knows no words of an address
@require_GET
def report(request: HttpRequest, public_id: str) -> HttpResponse:
    """``?file=1``: to be stored, without what only makes sense on the server."""
    experiment = experiment_of(request, public_id)
    is_file = request.GET.get("file") == "1"
    answer = render(request, "dashboard/report/report.html", {
        "report": ReportContent(experiment), "experiment": experiment, "most_trials": MOST_TRIALS,
        "version": nniweb.__version__, "style": _STYLE, "is_file": is_file})
    if is_file:
        for name, value in as_attachment(f"{experiment.public_id}-report.html").items():
            answer[name] = value
    return answer
