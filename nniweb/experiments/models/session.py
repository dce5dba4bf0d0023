"""Who is signed in, and passwords that are being tried, or were tried without success a short time ago.

A thief of the database, or of a copy of it, is not signed in: rows have digests of what browsers send.
"""

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


class SignInAttempt(models.Model):
    """One try. The row is written before the password is looked at, and goes when it was the right one.

    One whose process ended in between stays, and counts as a failure. Rows live as long as failures count.
    """

    #: Stands for the name that was typed (``sign_in_attempts``).
    mark = models.CharField(max_length=32, db_index=True)
    #: As ``counted_as`` has it.
    address = models.CharField(max_length=45, db_index=True)
    at = models.DateTimeField(db_index=True)
    #: False while the password is being looked at.
    failed = models.BooleanField(default=False)
