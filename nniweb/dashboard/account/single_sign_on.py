"""Single sign-on by OpenID Connect: authorization code with PKCE, by Authlib, which checks signature, issuer, audience,
expiry and nonce of what the provider says.

Who a person is says the provider's subject (``SingleSignOnIdentity``), never a name that could be somebody else's here.
"""

import functools
import logging
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import Group
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from nniweb.dashboard.account.sign_in import MODEL_BACKEND
from nniweb.experiments.access import accounts, sign_in_attempts
from nniweb.experiments.access.request_actor import address_of, known_as
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import SingleSignOnIdentity, User
from nniweb.experiments.models.account import Role
from nniweb.http.callers.request_counts import counted
from nniweb.process.counted_address import counted_as

logger = logging.getLogger(__name__)

#: Seconds that each answer of the provider may take.
PATIENCE = 10
#: Within which the browser must come back from the provider.
ANSWER_SECONDS = 3600
#: Sign-ins that one browser may have begun: several pages may have sent it to the provider. Of more the oldest are
#: forgotten.
MOST_BEGUN = 10
#: Sign-ins that may be begun from one network address in a minute: anybody may begin, and each leaves a session.
MOST_A_MINUTE = 60
#: Characters of the page that the browser is sent to afterwards; one with more is not remembered.
LONGEST_NEXT = 2000
_NEXT = "single-sign-on-next"
#: How Authlib begins the names under which a session has what it must know until the browser comes back.
_BEGUN = "_state_provider_"


class NotLetIn(Exception):
    """The provider knows the person, but they get no further here; the sentence says why."""


@functools.lru_cache(maxsize=1)
def _client(issuer: str, client_id: str, secret: str) -> Any:
    from authlib.integrations.django_client import OAuth  # type: ignore[import-untyped]  # no types are shipped

    oauth = OAuth()
    oauth.register(
        "provider", client_id=client_id, client_secret=secret or None,
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256", "default_timeout": PATIENCE,
                       "token_endpoint_auth_method": "client_secret_basic" if secret else "none"})
    return oauth.provider


def client() -> Any:
    """The provider that is configured. Raises Http404 where there is none."""
    if not settings.OIDC_ISSUER:
        raise Http404("Single sign-on is not configured.")
    return _client(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)


@require_GET
@never_cache
@login_not_required
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider."""
    provider = client()
    if request.user.is_authenticated:
        return redirect("experiments")
    if counted(f"single-sign-on-{counted_as(address_of(request))}-{int(time.time() // 60)}") > MOST_A_MINUTE:
        refusal = render(request, "dashboard/single_sign_on_failed.html", {
            "reason": "Too many sign-ins were begun from your network address. Try again in a minute."}, status=429)
        refusal["Retry-After"] = "60"
        return refusal
    request.session.set_expiry(ANSWER_SECONDS)
    _forget_oldest(request.session)
    wanted = request.GET.get("next", "")
    is_kept = len(wanted) <= LONGEST_NEXT and url_has_allowed_host_and_scheme(wanted, {request.get_host()})
    request.session[_NEXT] = wanted if is_kept else ""
    path = reverse("single-sign-on-back")
    address = f"{settings.PUBLIC_URL}{path}" if settings.PUBLIC_URL else request.build_absolute_uri(path)
    try:
        answer: HttpResponse = provider.authorize_redirect(request, address)
    except Exception as error:  # the provider's answer is anything that a server may say, or nothing
        return _failed(request, error)
    return answer


def _forget_oldest(session: SessionBase) -> None:
    """Makes room for one that is begun now."""
    begun = {name: known["exp"] for name, known in session.items() if name.startswith(_BEGUN)}
    for name in sorted(begun, key=begun.__getitem__)[:max(0, len(begun) + 1 - MOST_BEGUN)]:
        del session[name]


@require_GET
@never_cache
@login_not_required
def come_back(request: HttpRequest) -> HttpResponse:
    """The browser comes from the provider, with a code that says who it is."""
    provider = client()
    try:
        claims = provider.authorize_access_token(request).get("userinfo") or {}
        own_name = str(provider.load_server_metadata().get("issuer", ""))
    except Exception as error:  # what it sent is not what it should be, in one of very many ways
        sign_in_attempts.note_refusal(f"single sign-on: {type(error).__name__}")
        return _failed(request, error)
    try:
        if own_name.rstrip("/") != settings.OIDC_ISSUER:
            raise NotLetIn(f"The provider's issuer is {own_name}, but NNIWEB_OIDC_ISSUER is {settings.OIDC_ISSUER}.")
        if not claims.get("sub"):
            raise NotLetIn("The provider did not send your identity.")
        user = person_of(claims)
    except (NotLetIn, Refused) as error:
        sign_in_attempts.note_refusal(f"single sign-on: {error}")
        return render(request, "dashboard/single_sign_on_failed.html", {"reason": str(error)}, status=403)
    wanted = request.session.pop(_NEXT, "")
    request.session.set_expiry(None)
    known_as(user, "single sign-on")
    login(request, user, backend=MODEL_BACKEND)
    return redirect(wanted or "experiments")


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    logger.warning("single sign-on failed: %s: %s", type(error).__name__, error)
    return render(request, "dashboard/single_sign_on_failed.html", status=502)


def person_of(claims: dict[str, Any]) -> User:
    """The person of these claims, made where they come for the first time. Raises NotLetIn and Refused."""
    with transaction.atomic():
        subject = str(claims["sub"])[:255]
        found = SingleSignOnIdentity.objects.select_related("user").filter(
            issuer=settings.OIDC_ISSUER, subject=subject).first()
        if found is not None:
            user = found.user
        else:
            user = _by_email(claims) or _made(claims)
            SingleSignOnIdentity.objects.create(user=user, issuer=settings.OIDC_ISSUER, subject=subject)
        if not user.is_active:
            raise NotLetIn(f"The account {user.username} is not active. Ask an administrator.")
        _take_groups(user, claims)
        return user


def _by_email(claims: dict[str, Any]) -> User | None:
    """Somebody who is known here already, where the installation trusts the provider's word on addresses."""
    address = claims.get("email")
    if not settings.OIDC_MATCH_EMAIL or claims.get("email_verified") is not True or not isinstance(address, str):
        return None
    found = list(User.objects.filter(email__iexact=address, is_active=True)[:2])
    return found[0] if len(found) == 1 else None


def _made(claims: dict[str, Any]) -> User:
    wanted = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    name = "".join(letter for letter in wanted if letter.isalnum() or letter in "@.+-_")[:140] or "person"
    taken = set(User.objects.filter(username__startswith=name).values_list("username", flat=True))
    free = next(each for number in range(1, len(taken) + 2)
                if (each := name if number == 1 else f"{name}-{number}") not in taken)
    email = claims.get("email") if claims.get("email_verified") is not False else ""
    return accounts.create_user(free, role=Role(settings.OIDC_ROLE), email=str(email or "")[:254],
                                first_name=str(claims.get("given_name") or "")[:150],
                                last_name=str(claims.get("family_name") or "")[:150])


def _take_groups(user: User, claims: dict[str, Any]) -> None:
    """Who is in which group says the provider, where it is asked for that; groups that are not here are left out."""
    if not settings.OIDC_GROUPS_CLAIM:
        return
    said = claims.get(settings.OIDC_GROUPS_CLAIM)
    names = [name for name in said if isinstance(name, str)] if isinstance(said, list) else []
    groups = set(Group.objects.filter(name__in=names))
    if groups != set(user.groups.all()):
        accounts.change_user(user, {"groups": groups})
