"""The page that says what each reason means, to which every "why" of the other pages leads."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from nniweb.dashboard.reference.reason_docs import DOCS_OF
from trainingservice.reasons import CODES, OF_CLUSTERS, OF_PLATFORMS

#: Heading -> what to do about reasons of this kind.
_OF_TRIALS = ("Trials and experiments", (
    "The page of the trial or experiment names what is awaited or what went wrong, and what to do. Reasons to wait "
    "pass by themselves unless a limit is in the way: a quota, the trial limit, the time limit, or a pause. For a "
    "trial that failed, read the end of its stderr first."))
_OF_JOBS = ("Jobs on a platform", (
    "The platform gave this reason for the job of a trial. The sentence holds the platform's own words; its own tools "
    "show more. Refresh on the trial's page asks the platform again."))
_OF_PLACES = ("Clusters and machines", (
    "Something keeps a whole platform or one of its machines from working. Running trials continue where they can. "
    "Test on the cluster's page says which part fails; Settings there changes addresses and credentials."))

#: Where the documentation goes on, as words and page with section.
_DOCS = {
    _OF_TRIALS: (("Why does it wait?", "how-to-debug#a-trial-waits"),
                 ("Why did it fail?", "how-to-debug#a-trial-failed"),
                 ("Why are there no trials?", "how-to-debug#an-experiment-has-no-trials")),
    _OF_JOBS: (("What the platform says", "how-to-debug#asking-the-platform"),),
    _OF_PLACES: (("Setting up clusters", "clusters#in-the-form"),
                 ("When one of several clusters fails", "several-clusters#when-a-cluster-fails")),
}


def section_of(code: str) -> tuple[str, str]:
    """Heading and advice of the section in which a code stands."""
    return _OF_JOBS if code in OF_PLATFORMS else _OF_PLACES if code in OF_CLUSTERS else _OF_TRIALS


def address_of(code: str) -> str:
    """Where the page explains a code; "" of what somebody else said, which has no code."""
    return f"{reverse('reasons')}#{code}" if code in CODES else ""


@require_GET
def reasons(request: HttpRequest) -> HttpResponse:
    """All codes by section, in the order of the alphabet."""
    sections: dict[tuple[str, str], list[tuple[str, str, str]]] = {
        _OF_TRIALS: [], _OF_JOBS: [], _OF_PLACES: []}
    for code in sorted(CODES):
        sections[section_of(code)].append((code, CODES[code].meaning, DOCS_OF.get(code, "")))
    return render(request, "dashboard/reasons.html", {
        "sections": [(*section, _DOCS[section], codes) for section, codes in sections.items()]})
