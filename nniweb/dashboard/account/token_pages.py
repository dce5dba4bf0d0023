"""The page of tokens and leashes: whose they are, what they may do, what they run, and their end."""

from dataclasses import dataclass

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.access.leashes import names_of
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.actions import token_end
from nniweb.experiments.models import ApiToken, Experiment, Trial, User
from nniweb.experiments.queries.token_budgets import BudgetLine, budgets_of_tokens
from nniweb.experiments.queries.token_use import TokenUse, use_of
from trainingservice.reasons import count_of
from trialkeeper.whole_number import whole_number

TOKENS_PER_PAGE = 50


@dataclass(frozen=True)
class ShownToken:
    """A row of the page."""

    token: ApiToken
    clusters: list[str]
    use: TokenUse
    budgets: list[BudgetLine]


@never_cache
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """One's own tokens; of administrators everybody's. POST ends one (``end-token``), and what it runs (``stop``).

    ``?ended=1`` lists those as well that were ended and run nothing.
    """
    user = the_visitor(request)
    found = ApiToken.objects.select_related("user", "ended_by").order_by("-created_at", "-pk")
    if not user.is_admin:
        found = found.filter(user=user)
    if request.method == "POST":
        token = get_object_or_404(found, pk=whole_number(request.POST.get("end-token", "")))
        stops = "stop" in request.POST
        stopped = token_end.end(token, user, stop=stops)
        messages.success(request, f"The token {token} was ended and can no longer be used. " + (
            f"{count_of(stopped.experiments, 'experiment')} and {count_of(stopped.trials, 'further trial')} are being "
            "stopped." if stops else "What it runs goes on."))
        return redirect("tokens")
    wants_ended = request.GET.get("ended") == "1"
    if not wants_ended:
        found = found.filter(Q(ended_at=None) | _still_runs(user))
    page = Paginator(found, TOKENS_PER_PAGE).get_page(request.GET.get("page"))
    keys = [token.pk for token in page]
    use, budgets = use_of(keys, user), budgets_of_tokens(keys, timezone.now())
    shown = [ShownToken(token, names_of(token), use[token.pk], budgets.get(token.pk, [])) for token in page]
    return render(request, "dashboard/tokens.html", {
        "shown": shown, "page": page, "visitor": user, "wants_ended": wants_ended,
        "query": {"given": request.GET}})


def _still_runs(viewer: User) -> Q:
    """Condition of tokens that asked for something that has not ended, of what this person may see."""
    seen = visible_experiments(viewer).values("pk")
    return Q(Exists(Experiment.objects.unfinished().filter(token=OuterRef("pk"), pk__in=seen))) | Q(
        Exists(Trial.objects.unfinished().filter(token=OuterRef("pk"), experiment__in=seen)))
