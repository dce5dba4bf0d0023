"""Ways in: a password, a one-time link, or single sign-on (see ``single_sign_on``)."""

import math
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from nniweb.experiments.access import sign_in_attempts
from nniweb.experiments.access.request_actor import known_as
from nniweb.experiments.models import SignInLink

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


class SignIn(LoginView):
    template_name = "dashboard/sign_in.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return super().post(request, *args, **kwargs)
        except sign_in_attempts.TooManyAttempts as refused:
            minutes = max(1, math.ceil(refused.wait.total_seconds() / 60))
        # an empty form: one with what was sent would try the password as soon as the page asks for its errors
        context = self.get_context_data(form=self.get_form_class()(request), wait_minutes=minutes)
        answer = self.render_to_response(context, status=429)
        answer["Retry-After"] = str(minutes * 60)
        return answer

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        return super().get_context_data(**more, single_sign_on=settings.OIDC_NAME if settings.OIDC_ISSUER else "")


class SignOut(LogoutView):
    """POST only, as Django has it."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_not_required
def by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """A page with a button that signs the link's person in, which uses the link up. Opening it does not: scanners of
    mail, previews of chats and browsers that fetch ahead open links before people do.
    """
    user = SignInLink.use(secret) if request.method == "POST" else SignInLink.person_of(secret)
    if user is None:
        sign_in_attempts.note_refusal("a sign-in link that is used up, or was never made")
        return render(request, "dashboard/link_expired.html", status=410)
    if request.method != "POST":
        return render(request, "dashboard/sign_in_link.html", {"person": user})
    known_as(user, "sign-in link")
    login(request, user, backend=MODEL_BACKEND)
    return redirect("experiments")
