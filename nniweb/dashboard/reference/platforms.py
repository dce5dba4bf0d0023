"""The page of platforms: what each can do, the fields of its section in experiment files, and those that are broken."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from nniweb.api.clusters.platforms import document
from trainingservice.platforms import BUILT_IN, broken_platforms, load_platform, platform_names


@require_GET
def platforms(request: HttpRequest) -> HttpResponse:
    found = [document(load_platform(name)) for name in platform_names()]
    return render(request, "dashboard/platforms.html", {
        "platforms": [{**platform, "traits": traits(platform), "page": page_of(platform["name"])}
                      for platform in found],
        "broken": broken_platforms()})


def page_of(name: str) -> str:
    """The page of the documentation; "" of a platform that comes from elsewhere."""
    return f"platforms/{name}" if name in BUILT_IN else ""


def traits(platform: dict[str, Any]) -> list[str]:
    """What a platform can do and what it needs, in sentences."""
    multi_phase = {True: "A running trial can be given further parameters.", False: "",
                   None: "Whether a running trial can be given further parameters depends on the cluster."}
    return [sentence for sentence in (
        "Trials run in the code folder itself." if platform["shares_code_folder"] else
        "Each trial has a copy of the code.",
        "" if platform["keepers_report"] else
        "Trials run without a keeper: the platform tells their results, and what they print is not stored.",
        "Trials must be able to call this server over the network." if platform["needs_public_url"] else "",
        "The platform is the machine that the server runs on." if platform["pinned_to_host"] else "",
        "The platform may suspend a running trial and run it again later." if platform["suspends_jobs"] else "",
        multi_phase[platform["multi_phase"]],
        f"reuseMode: {platform['reuse_mode_meaning']}.") if sentence]
