"""How often one person or token may ask over REST: NNIWEB_API_RATE requests a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from nniweb.experiments.models import ApiToken
from nniweb.http.callers.request_counts import counted

if TYPE_CHECKING:  # when running, views import the throttles
    from rest_framework.views import APIView


class PersonThrottle(BaseThrottle):
    """Refuses with 429 and ``Retry-After`` until the minute is over. Who is nobody was refused before (401).

    A count by the minute and no token bucket: Redis counts for all web processes together, by one increment.
    """

    def allow_request(self, request: Request, view: APIView) -> bool:
        if not settings.API_RATE:
            return True
        who = f"token-{request.auth.pk}" if isinstance(request.auth, ApiToken) else f"person-{request.user.pk}"
        key = f"rest-{who}-{int(time.time() // 60)}"
        return counted(key) <= settings.API_RATE

    def wait(self) -> float:
        """Seconds until the next minute begins."""
        return 60 - time.time() % 60
