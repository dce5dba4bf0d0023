"""How times are written in answers."""

from datetime import UTC, datetime


def time_text(at: datetime | None) -> str | None:
    """As the fields of the REST framework write it: ISO 8601 in UTC, with Z."""
    if at is None:
        return None
    text = at.isoformat() if at.tzinfo is UTC else at.astimezone(UTC).isoformat()
    return text[:-6] + "Z" if text.endswith("+00:00") else text
