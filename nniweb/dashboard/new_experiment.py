"""The page that launches: a config is pasted, checked and launched, by the same code as over REST."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views import View

from nniweb.api.launch_check import check_document
from nniweb.api.launch_request import checked_form, from_form
from nniweb.dashboard.launch_templates import LaunchTemplate, from_experiment, launch_templates
from nniweb.experiments.config import ConfigError, ConfigInvalid
from nniweb.experiments.launching import launch
from nniweb.experiments.models import User
from nniweb.experiments.visibility import visible_clusters, visible_experiments

#: Fields of the form besides the config's text, and what people call them.
FIELDS = {"base_directory": "Code folder", "code": "Code archive", "cluster": "Cluster", "config": "The file"}


class NewExperiment(View):
    """Works as a plain form. The page's script sends the same form and takes the outcome out of the answer."""

    def get(self, request: HttpRequest) -> HttpResponse:
        user = _user(request)
        start = self._start(request, user)
        return self._page(request, {"config": start.text, "base_directory": start.folder if user.is_admin else "",
                                    "cluster": request.GET.get("cluster", "")}, start=start.name)

    @staticmethod
    def _start(request: HttpRequest, user: User) -> LaunchTemplate:
        if name := request.GET.get("template"):
            try:
                return launch_templates()[name]
            except KeyError:
                raise Http404 from None
        if public_id := request.GET.get("from"):
            experiment = visible_experiments(user).filter(public_id=public_id).first()
            if experiment is None:
                raise Http404
            return from_experiment(experiment)
        return LaunchTemplate("", "", "")

    def post(self, request: HttpRequest) -> HttpResponseBase:
        user = _user(request)
        # browsers send lines of a text area with CR and LF
        text = request.POST.get("config", "").replace("\r\n", "\n")
        given = {"config": text, "base_directory": request.POST.get("base_directory", "").strip(),
                 "cluster": request.POST.get("cluster", "")}
        form = {**{name: value for name, value in given.items() if value},
                **({"code": request.FILES["code"]} if "code" in request.FILES else {})}
        try:
            if not user.may_change:
                raise ConfigInvalid([ConfigError("", "Your role is viewer: you can look, not launch. Ask an "
                                                 "administrator.")])
            if request.POST.get("act") != "launch":
                return self._page(request, given, checked=check_document(*from_form(form, user, checked_form)))
            experiment = from_form(form, user, launch)
        except ConfigInvalid as invalid:
            return self._page(request, given, errors=invalid.errors)
        address = reverse("experiment", args=[experiment.public_id])
        if request.headers.get("X-Requested-With") == "fetch":
            return JsonResponse({"address": address}, status=201)
        return redirect(address)

    @staticmethod
    def _page(request: HttpRequest, given: dict[str, str], *, errors: list[ConfigError] | None = None,
              checked: dict[str, Any] | None = None, start: str = "") -> HttpResponse:
        wrong = {error.line for error in errors or []}
        lines = max(1, given["config"].count("\n") + 1)
        return render(request, "dashboard/new_experiment.html", {
            "given": given, "errors": [_shown(error) for error in errors or []], "checked": checked, "start": start,
            "lines": [(number, number in wrong) for number in range(1, lines + 1)],
            "templates": launch_templates().values(),
            "clusters": visible_clusters(_user(request)).filter(enabled=True).order_by("name")})


def _shown(error: ConfigError) -> dict[str, Any]:
    return {"line": error.line, "column": error.column, "message": error.message,
            "input": error.field if error.field in FIELDS and error.line is None else "",
            "field": FIELDS.get(error.field, error.field) if error.line is None else error.field}


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the middleware lets nobody else in
    return request.user
