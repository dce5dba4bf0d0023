"""What ``manage.py check`` says of the installation beside Django's own."""

from typing import Any

from django.core.checks import CheckMessage, register
from django.core.checks import Warning as CheckWarning

from trainingservice.platforms import broken_platforms


@register()
def platforms_can_be_used(**_: Any) -> list[CheckMessage]:
    """A platform that is registered and cannot be used harms nobody else, so it is a warning."""
    return [CheckWarning(reason, id="nniweb.W001", obj=f"platform {name}")
            for name, reason in broken_platforms().items()]
