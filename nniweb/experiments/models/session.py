"""Who is signed in. A thief of the database, or of a copy of it, is not: rows have digests of what browsers send."""

from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class Session(AbstractBaseSession):
    """As Django's, with another key: the SHA-256 (hex) of the cookie's value (``sessions.SessionStore``)."""

    session_key = models.CharField(max_length=64, primary_key=True)

    @classmethod
    def get_session_store_class(cls) -> type:
        from nniweb.experiments.sessions import SessionStore  # it reads these rows

        return SessionStore
