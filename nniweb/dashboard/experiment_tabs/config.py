"""The file as it was given, and what it was resolved to."""

import json

import yaml
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.dashboard.experiment_tabs.head import experiment_of, tab


@require_GET
def config(request: HttpRequest, public_id: str) -> HttpResponse:
    found = experiment_of(request, public_id)
    return render(request, "dashboard/experiment/config.html", {
        **tab(request, found, "experiment-config"),
        "resolved": yaml.safe_dump(found.config, sort_keys=False, allow_unicode=True),
        "search_space": json.dumps(found.search_space, indent=2, ensure_ascii=False)
        if found.search_space else ""})
