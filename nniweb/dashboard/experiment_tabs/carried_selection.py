"""The selected trials go with the row of tabs: in the address of each as ``selected``, and as ``trials`` of Compare.

The server writes them into the links, so that a click before the page's script runs loses none;
``static/js/experiment/carried_selection.js`` writes them anew when the selection changes.
"""

from urllib.parse import quote

from django.http import HttpRequest
from django.urls import reverse

#: Trials that are compared at once. As in static/js/experiment/compared_trials.js.
MOST_COMPARED = 20
#: Ids that an address carries; a larger selection stays on its tab. As in carried_selection.js.
MOST_CARRIED = 100


def address_of_tab(request: HttpRequest, name: str, public_id: str) -> str:
    """The address of the tab ``name`` of this experiment, with what the request's address has selected."""
    address = reverse(name, args=[public_id])
    ids = _selected(request)
    if not 0 < len(ids) <= MOST_CARRIED:
        return address
    carried = quote(",".join(ids), safe=",")
    compared = f"&trials={carried}" if name == "experiment-compare" and 1 < len(ids) <= MOST_COMPARED else ""
    return f"{address}?selected={carried}{compared}"


def _selected(request: HttpRequest) -> list[str]:
    on_compare = request.resolver_match is not None and request.resolver_match.url_name == "experiment-compare"
    given = request.GET.get("selected", request.GET.get("trials", "") if on_compare else "")
    return [one for one in given.split(",") if one]
