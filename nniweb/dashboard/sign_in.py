"""Ways in: a password, or a one-time link."""

from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from nniweb.experiments.models import SignInLink


class SignIn(LoginView):
    template_name = "dashboard/sign_in.html"
    redirect_authenticated_user = True


class SignOut(LogoutView):
    """POST only, as Django has it."""


@require_GET
@never_cache
@login_not_required
def by_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Sign the link's person in; the link is used up."""
    user = SignInLink.use(secret)
    if user is None:
        return render(request, "dashboard/link_expired.html", status=410)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("experiments")
