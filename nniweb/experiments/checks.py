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
    try:
        _storage = storages["checkpoints"] if "checkpoints" in storages.backends else None
    except Exception as error:  # the class may be anybody's
        return [Error(f"NNIWEB_CHECKPOINT_STORAGE: {error}", id="nniweb.E001",
                      hint="It must be the dotted name of a storage class of Django, and "
                           "NNIWEB_CHECKPOINT_STORAGE_OPTIONS a JSON object with its arguments (docs/settings.md).")]
    return []
