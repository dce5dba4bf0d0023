"""The page of one's account: who one is, password, tokens, groups."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from nniweb.dashboard.account.first_lines import first_lines
from nniweb.dashboard.account.forms import EmailForm, is_valid, password_form
from nniweb.dashboard.account.password_reset import mail_is_set_up
from nniweb.dashboard.account.token_form import LEASH, LIVES, TokenForm
from nniweb.dashboard.page_data import the_visitor
from nniweb.experiments.access import accounts, audit
from nniweb.experiments.launch.launch_checks import clusters_elsewhere
from nniweb.experiments.models import ApiToken, Budget, User
from nniweb.experiments.models.account import ANY_LOCAL_USER, Scope
from trialkeeper.whole_number import whole_number

#: The cookie that carries a new token to the page that shows it, and how long it may take, in seconds.
NEW_TOKEN, NEW_TOKEN_LIVES = "made-token", 60


@never_cache
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """POST makes a token (``make-token``; the page after it shows it, this once) or removes one (``remove-token``)."""
    user = the_visitor(request)
    if "remove-token" in request.POST:
        token = get_object_or_404(user.api_tokens.select_related("user"), pk=whole_number(request.POST["remove-token"]))
        accounts.remove_token(token, user)
        messages.success(request, f"The token {token} was removed and can no longer be used.")
        return redirect("account")
    form = TokenForm(user, request.POST if request.method == "POST" else None,
                     initial={"scope": _scope_at_first(user), "lives": "90", "period": Budget.Period.TOTAL})
    if request.method != "POST":
        return _page_with_new_token(request, user, form)
    if form.is_valid() and (made := form.make(timezone.now())) is not None:
        secret, token = made
        return _to_page_with(token, secret)
    return page(request, user, status=400, form=form)


def _to_page_with(token: ApiToken, secret: str) -> HttpResponse:
    """To the page that shows the secret, which a cookie carries there: the server stores only its hash."""
    answer = redirect("account")
    answer.set_signed_cookie(NEW_TOKEN, f"{token.pk}:{secret}", max_age=NEW_TOKEN_LIVES, path=reverse("account"),
                             secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Strict")
    return answer


def _page_with_new_token(request: HttpRequest, user: User, form: TokenForm) -> HttpResponse:
    """The page; the first time after a token was made, with that token."""
    if NEW_TOKEN not in request.COOKIES:
        return page(request, user, form=form)
    shown: dict[str, Any] = {}
    said = request.get_signed_cookie(NEW_TOKEN, default="", max_age=NEW_TOKEN_LIVES) or ""
    number, _, secret = said.partition(":")
    if secret and (made := user.api_tokens.select_related("user").filter(pk=int(number)).first()):
        shown = {"secret": secret, "made": made,
                 "first_lines": first_lines(request.build_absolute_uri("/").rstrip("/"), secret)}
    answer = page(request, user, form=form, **shown)
    answer.delete_cookie(NEW_TOKEN, path=reverse("account"), samesite="Strict")
    return answer


def _scope_at_first(user: User) -> Scope:
    """With which a launch works: of an administrator who has nothing but the server's own machine, and not the right
    to it that narrower tokens need, that is admin.
    """
    return Scope.CHANGE if user.is_admin and (ANY_LOCAL_USER in user.own_local_users or clusters_elsewhere(user)) \
        else user.scopes[-1]


def page(request: HttpRequest, user: User, *, status: int = 200, **more: Any) -> HttpResponse:
    """The page of the account. ``more`` replaces entries of its context, such as a form with errors."""
    now = timezone.now()
    tokens = list(ApiToken.objects.filter(user=user, ended_at=None).order_by("-created_at", "-pk"))
    groups = [(group, [member.username for member in group.user_set.order_by("username")])
              for group in user.groups.order_by("name")]
    context = {
        "visitor": user, "tokens": tokens, "now": now, "groups": groups, "lives": LIVES, "scopes": user.scopes,
        "leash": LEASH,
        "password_form": password_form(user), "identities": list(user.identities.order_by("pk")),
        "single_sign_on": settings.OIDC_NAME, "mail_is_set_up": mail_is_set_up(),
        "email_form": EmailForm(user), **more}
    return render(request, "dashboard/account.html", context, status=status)


@method_decorator(sensitive_post_parameters(), name="dispatch")
@method_decorator(never_cache, name="dispatch")
class ChangePassword(View):
    """Signs out everywhere else."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        user = the_visitor(request)
        form = password_form(user, request.POST)
        if not is_valid(form):
            return page(request, user, status=400, form=TokenForm(user), password_form=form)
        form.save()
        update_session_auth_hash(request, user)
        audit.record("password.change", user)
        messages.success(request, "The password was changed. Your sessions in other browsers were ended.")
        return redirect("account")
