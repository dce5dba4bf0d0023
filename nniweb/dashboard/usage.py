"""The page that says who uses how much of the clusters."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_GET

from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.access.visibility import visible_clusters
from nniweb.experiments.budgets.forecast_words import budget_rows
from nniweb.experiments.budgets.ledger_check import months
from nniweb.experiments.budgets.standing import attempts_under_way, standing
from nniweb.experiments.budgets.visible import seen_by, visible_budgets, visible_entries
from nniweb.experiments.queries.usage import usage

#: Periods of the page: days, None for all that is stored -> in words.
PERIODS = {1: "24 hours", 7: "7 days", 30: "30 days", 365: "a year", None: "all that is stored"}
#: Rows that the page shows; REST has all.
SHOWN = 200
#: Months of the ledger that it shows.
MONTHS = 12


@require_GET
def usage_page(request: HttpRequest) -> HttpResponse:
    """Persons and groups with their trials, GPUs and GPU-hours. Another period than those offered is 30 days."""
    user = the_visitor(request)
    asked = request.GET.get("days", "30")
    days = next((days for days in PERIODS if asked == ("all" if days is None else str(days))), 30)
    found = list(visible_clusters(user).order_by("name").only("public_id", "name"))
    wanted = request.GET.get("cluster", "")
    cluster = get_object_or_404(visible_clusters(user), public_id=wanted) if wanted else None
    now = timezone.now()
    rows = usage(user, now, cluster=cluster, days=days)
    budgets = list(visible_budgets(user)[:SHOWN])
    helds = [seen_by(budget, user) for budget in budgets]
    under_way = attempts_under_way(helds)
    return render(request, "dashboard/usage.html", {
        "rows": rows[:SHOWN], "unlisted": len(rows) - SHOWN, "clusters": found, "cluster": cluster,
        "now": now, "months": months(visible_entries(user))[-MONTHS:],
        "budgets": budget_rows(standing(held, now, under_way) for held in helds),
        "periods": [("all" if days is None else days, words) for days, words in PERIODS.items()],
        "days": "all" if days is None else days, "period": PERIODS[days],
        "totals": {name: sum(getattr(row, name) for row in rows) for name in ("running", "waiting", "gpus",
                                                                              "gpu_hours")}})
