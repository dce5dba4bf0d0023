"""Text kept exactly as it came, in any database."""

from typing import Any

from django.db import models


def to_bytes(text: str) -> bytes:
    """UTF-8 that also keeps lone surrogates, which neither SQLite's nor PostgreSQL's text type takes."""
    return text.encode("utf-8", "surrogatepass")


def to_text(stored: bytes | memoryview) -> str:
    return bytes(stored).decode("utf-8", "surrogatepass")


def printable(text: str, limit: int = 4000) -> str:
    """``text`` fit for a text column and for reading: no NUL, no lone surrogates, not endless."""
    text = text.replace("\x00", "\N{SYMBOL FOR NULL}").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


class ExactTextField(models.BinaryField):  # type: ignore[type-arg]  # not subscriptable when running
    """A ``str`` in Python, bytes in the database: a trial may report NUL and lone surrogates."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> str | None:
        return None if value is None else to_text(value)

    def to_python(self, value: Any) -> Any:
        return value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return super().get_db_prep_value(to_bytes(value) if isinstance(value, str) else value, connection, prepared)
