"""What ``manage.py check`` says of the installation beside Django's own."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as CheckWarning
from django.core.files.storage import storages

from trainingservice.platforms import broken_platforms


@register()
def platforms_can_be_used(**_: Any) -> list[CheckMessage]:
    """A platform that is registered and cannot be used harms nobody else, so it is a warning."""
    return [CheckWarning(reason, id="nniweb.W001", obj=f"platform {name}")
            for name, reason in broken_platforms().items()]


@register()
def checkpoint_storage_can_be_made(**_: Any) -> list[CheckMessage]:
    """Whether NNIWEB_CHECKPOINT_STORAGE names a class that takes its options. Nothing is asked over the network."""
    return _cannot_be_made("checkpoints", "NNIWEB_CHECKPOINT_STORAGE", "nniweb.E001")


@register()
def file_storage_can_be_made(**_: Any) -> list[CheckMessage]:
    """The same of NNIWEB_FILE_STORAGE."""
    return _cannot_be_made("default", "NNIWEB_FILE_STORAGE", "nniweb.E002")


def _cannot_be_made(alias: str, variable: str, error_id: str) -> list[CheckMessage]:
    try:
        _storage = storages[alias] if alias in storages.backends else None
    except Exception as error:  # the class may be anybody's
        return [Error(f"{variable}: {error}", id=error_id,
                      hint="It must be the dotted name of a storage class of Django, and "
                           f"{variable}_OPTIONS a JSON object with its arguments (docs/settings.md).")]
    return []
