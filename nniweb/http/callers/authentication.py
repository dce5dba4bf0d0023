"""How programs and signed-in browsers prove who they are."""

from datetime import datetime, timedelta

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from nniweb.database.outage_logs import takes_nothing
from nniweb.experiments.access.request_actor import known_as
from nniweb.experiments.models import ApiToken, User
from nniweb.experiments.models.account import Scope, hash_of
from nniweb.experiments.sql.idle_connections import drop_connection
from nniweb.http.callers.leash_table import why_refused
from nniweb.storage.own_files import COMMAND

#: ``last_used_at`` is written at most this often, so that reading costs no write.
USE_NOTED_EVERY = timedelta(minutes=1)


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Token nniweb_...``, as the page of one's account or ``python manage.py token NAME`` makes one.

    Its scope bounds what the request's user may do, and its leash what may be asked for at all.
    """

    keyword = "Token"

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Raises AuthenticationFailed for a token that opens nothing, PermissionDenied where its leash forbids this."""
        token = self.token_of(request.META.get("HTTP_AUTHORIZATION", ""))
        if token is None:
            return None
        if token.has_leash and (why := why_refused(token, request.method or "", request._request.resolver_match)):
            raise PermissionDenied(why)
        known_as(token.user, f"token {token}", token)
        return token.user, token

    def token_of(self, authorization: str) -> ApiToken | None:
        """The token in this header, with its person, bounded by its scope; None where it has none. What its leash says
        is not asked. Raises AuthenticationFailed.
        """
        scheme, _, secret = authorization.strip().partition(" ")
        if scheme.lower() != self.keyword.lower():
            return None
        token = ApiToken.objects.select_related("user").filter(hash=hash_of(secret.strip())).first()
        if token is None or not token.user.is_active:
            raise AuthenticationFailed("This token is not valid. Make one on the page of your account, or with "
                                       f"`{COMMAND} token NAME`.")
        if token.has_ended:
            raise AuthenticationFailed("This token was ended. Make a new one on the page of your account, or with "
                                       f"`{COMMAND} token NAME`.")
        if token.has_expired:
            raise AuthenticationFailed("This token has expired. Make a new one on the page of your account, or with "
                                       f"`{COMMAND} token NAME`.")
        self._note_use(token, timezone.now())
        token.user.scope = Scope(token.scope)
        return token

    def authenticate_header(self, request: Request) -> str:
        return self.keyword

    @staticmethod
    def _note_use(token: ApiToken, now: datetime) -> None:
        if token.last_used_at is None or now - token.last_used_at >= USE_NOTED_EVERY:
            due = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_NOTED_EVERY)
            try:
                ApiToken.objects.filter(due, pk=token.pk).update(last_used_at=now)
            except DatabaseError as error:
                if not takes_nothing(error):  # on a full disk, and after a fail-over, looking still works
                    raise
                drop_connection()


class SessionAuthentication(authentication.SessionAuthentication):
    """A browser that is signed in. What changes something needs the CSRF token, as in every form."""
