"""Who is signed in. A thief of the database, or of a copy of it, is not: rows have digests of what browsers send."""

from importlib import import_module
from typing import cast

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class Session(AbstractBaseSession):
    """As Django's, with another key: the SHA-256 (hex) of the cookie's value (``sessions.SessionStore``)."""

    session_key = models.CharField(max_length=64, primary_key=True)

    @classmethod
    def get_session_store_class(cls) -> type:
        # named by the settings: the store reads these rows, so it cannot be imported here
        return cast(type, import_module(settings.SESSION_ENGINE).SessionStore)
