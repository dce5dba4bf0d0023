"""Reads the environment variables that settings come from. All raise ImproperlyConfigured, with the variable's name."""

import json
import os
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from trainingservice.words.shown_value import shown


def text(name: str, default: str = "") -> str:
    """The variable, or the content of the file that ``NAME_FILE`` names (for secrets), or the default."""
    if name in os.environ:
        return os.environ[name]
    if path := os.environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE names {path}, which cannot be read: {error.strerror}.") from None
    return default


def number(name: str, default: int, least: int = 0, most: int = 1_000_000_000) -> int:
    """A whole number in this range. A billion seconds can still be waited for, and a billion MB be counted in bytes."""
    value = text(name, str(default))
    try:
        count = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {shown(value)}.") from None
    if not least <= count <= most:
        raise ImproperlyConfigured(f"{name} must be a whole number from {least} to {most}, not {count}.")
    return count


def days(name: str) -> int | None:
    """A number of days from 1; 0 or not set: no end (None)."""
    return number(name, 0, most=36_500) or None


def days_or_word(name: str, default: str, words: tuple[str, ...]) -> int | str:
    """A number of days from 1, or one of these words."""
    value = text(name, default).strip()
    if value in words:
        return value
    if not value.isascii() or not value.isdecimal() or not 1 <= int(value) <= 36_500:
        raise ImproperlyConfigured(f"{name} must be {', '.join(words)} or a number of days from 1 to 36500, not "
                                   f"{shown(value)}.")
    return int(value)


def boolean(name: str, default: bool) -> bool:
    """1, true, yes or on; 0, false, no, off or nothing."""
    value = text(name, "1" if default else "0").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off", ""):
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {shown(value)}.")


def names(name: str, default: str = "") -> list[str]:
    """A list with commas."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def json_object(name: str) -> dict[str, Any]:
    """A JSON object; empty where the variable is not set. The message does not show the value: it may have a secret."""
    try:
        value = json.loads(text(name, "{}"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ImproperlyConfigured(f'{name} must be a JSON object, such as {{"bucket_name": "nni"}}.')
    return value
