"""The page that launches: a config comes in one of four ways, is checked and launched by the same code as over REST."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views import View

from nniweb.api.experiments.launch_code import CODE_FIELDS
from nniweb.api.experiments.launch_request import checked_form, from_form
from nniweb.dashboard.algorithm_choices import choices
from nniweb.dashboard.launch_templates import LaunchTemplate, field_start, launch_templates, of_clone, started_from
from nniweb.documents.launch_check import check_document
from nniweb.experiments.access.visibility import (
    default_visibility,
    groups_to_share_with,
    visible_clusters,
    visible_experiments,
)
from nniweb.experiments.config import ConfigError, ConfigInvalid
from nniweb.experiments.launch.launching import launch
from nniweb.experiments.models import Experiment, User
from nniweb.tuning.algorithms import ASSESSORS, TUNERS
from nniweb.tuning.search_space.parser import ALL_TYPES
from trainingservice.code.code_archive import MAX_BYTES, MAX_FILES
from trainingservice.code.ignore_rules import IGNORE_FILE
from trainingservice.platforms import known_platforms

#: Fields of the form besides the config's text, and what people call them.
FIELDS = {"base_directory": "Code folder", "code": "Code", "code_of": "Code", "cluster": "Cluster",
          "config": "The file", "git_url": "Repository", "git_ref": "Branch", "git_folder": "Folder of it",
          "git_token": "Token", "group": "Visible to"}
#: Ways to a config, and what people call them.
WAYS = {"template": "A template", "file": "A config file", "clone": "An earlier experiment", "fields": "Field by field"}
#: Experiments that are offered to start from.
MOST_EARLIER = 12
#: Experiments whose results are offered to start from.
MOST_SOURCES = 100


class NewExperiment(View):
    takes_code = True
    """Works as a plain form. The page's script sends the same form and takes the outcome out of the answer."""

    def get(self, request: HttpRequest) -> HttpResponse:
        user = _user(request)
        way, start = self._start(request, user)
        given = {"config": start.text, "base_directory": start.folder if user.may_name_folders else "",
                 "cluster": request.GET.get("cluster", ""), "code_of": start.code_of, **start.git,
                 "group": _group_at_first(user, start)}
        return self._page(request, given, way=way, start=start)

    @staticmethod
    def _start(request: HttpRequest, user: User) -> tuple[str, LaunchTemplate]:
        if name := request.GET.get("template"):
            try:
                return "template", launch_templates()[name]
            except KeyError:
                raise Http404 from None
        if public_id := request.GET.get("clone") or request.GET.get("from"):
            found = visible_experiments(user).select_related("cluster", "code").filter(public_id=public_id).first()
            if found is None or not user.may_change:
                raise Http404
            start = of_clone(found, user)
            return "clone", started_from(start, found) if request.GET.get("start_from") == public_id else start
        way = request.GET.get("way", "template")
        if way not in WAYS:
            raise Http404
        return way, LaunchTemplate("", "", field_start(_clusters(user)) if way == "fields" else "")

    def post(self, request: HttpRequest) -> HttpResponseBase:
        user = _user(request)
        # browsers send lines of a text area with CR and LF
        text = request.POST.get("config", "").replace("\r\n", "\n")
        given = {name: request.POST.get(name, "").strip() for name in ("base_directory", "cluster", *CODE_FIELDS)}
        given["config"] = text
        form = {**{name: value for name, value in given.items() if value},
                **({"group": request.POST["group"]} if "group" in request.POST else {}),
                **({"code": request.FILES["code"]} if "code" in request.FILES else {})}
        given.pop("git_token")  # what is secret does not come back
        given["group"] = request.POST.get("group", "")
        try:
            if not user.may_change:
                raise ConfigInvalid([ConfigError("", "Your role is viewer, which cannot launch experiments. Ask an "
                                                     "administrator for another role.")])
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
              checked: dict[str, Any] | None = None, way: str = "file", start: LaunchTemplate | None = None
              ) -> HttpResponse:
        user = _user(request)
        wrong = {error.line for error in errors or []}
        lines = max(1, given["config"].count("\n") + 1)
        code_of, default = given["code_of"], default_visibility(user).group
        kept = visible_experiments(user).filter(public_id=code_of).select_related("code").first() if code_of else None
        return render(request, "dashboard/new_experiment.html", {
            "given": given, "errors": [_shown(error) for error in errors or []], "checked": checked,
            "amiss": sum(not finding["ok"] for finding in checked["findings"]) if checked else 0, "start": start,
            "lines": [(number, number in wrong) for number in range(1, lines + 1)], "way": way, "ways": WAYS,
            "code_from": _code_from(given, user), "kept": kept, "templates": launch_templates().values(),
            "earlier": _earlier(user), "sources": _sources(user), "clusters": _clusters(user),
            "tuners": choices(TUNERS), "assessors": choices(ASSESSORS),
            "field_start": field_start(_clusters(user)), "types": ALL_TYPES,
            "platforms": sorted(known_platforms()),  # the page asks for the form of the one that is chosen
            "groups": list(groups_to_share_with(user).values_list("name", flat=True)),
            "default_group": default.name if default is not None else "",
            "limits": {"files": MAX_FILES, "bytes": MAX_BYTES, "ignore": IGNORE_FILE}})


def _group_at_first(user: User, start: LaunchTemplate) -> str:
    """The group that is chosen at first, "" for nobody: that of the experiment which is cloned, else the default."""
    if start.code_of or start.name:
        cloned = visible_experiments(user).select_related("group").filter(public_id=start.name).first()
        if cloned is not None:
            group = cloned.group
            return group.name if group is not None and group in groups_to_share_with(user) else ""
    default = default_visibility(user).group
    return default.name if default is not None else ""


def _code_from(given: dict[str, str], user: User) -> str:
    """Which of the ways to bring the code is open at first."""
    if given["code_of"]:
        return "earlier"
    if given.get("git_url"):
        return "git"
    return "server" if user.may_name_folders else "computer"


def _clusters(user: User) -> Any:
    return visible_clusters(user).filter(enabled=True).order_by("name")


def _earlier(user: User) -> list[Experiment]:
    if not user.may_change:
        return []
    return list(visible_experiments(user).only("public_id", "name", "status", "created_at")
                .order_by("-created_at")[:MOST_EARLIER])


def _sources(user: User) -> list[Experiment]:
    """The newest ones that may be named in startFrom; whether their results fit, the check says."""
    if not user.may_change:
        return []
    return list(visible_experiments(user).filter(archived=False).only("public_id", "name", "created_at")
                .order_by("-created_at")[:MOST_SOURCES])


def _shown(error: ConfigError) -> dict[str, Any]:
    return {"line": error.line, "column": error.column, "message": error.message, "path": error.field,
            "input": error.field if error.field in FIELDS and error.line is None else "",
            "field": FIELDS.get(error.field, error.field) if error.line is None else error.field}


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the middleware lets nobody else in
    return request.user
