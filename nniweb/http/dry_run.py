"""Changes that may be tried: with ``?dry_run=true`` a request is carried out whole, answered, and taken back.

The answer is what the change would have led to, and every refusal is that of the change itself: rights, the present
state, limits. Nothing is left of it: no row, no entry in the audit log, no message to people, no ring of the bell. Only
the text of a code variant stays for a day, as that of a refused proposal.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from trainingservice.words.shown_value import shown

NAME = "dry_run"
#: For the schema of a view that has ``has_dry_run = True`` and uses ``unless_dry_run``.
PARAMETER = OpenApiParameter(NAME, bool, description=(
    "true: check the request and answer as if it were carried out, but change nothing."))


def means_dry_run(name: str) -> bool:
    """Whether this is the parameter's name, perhaps as other programs would spell it."""
    return re.sub(r"[^a-z]", "", name.lower()) == NAME.replace("_", "")


def is_dry_run(request: Request) -> bool:
    """Whether the request is to change nothing. Raises ValidationError, also where only the body says so: it would be
    made although the caller asked for no change.
    """
    if isinstance(request.data, Mapping) and (written_in := [name for name in request.data if means_dry_run(name)]):
        raise ValidationError({written_in[0]: f"belongs in the address, as ?{NAME}=true. Nothing was done."})
    written = request.query_params.get(NAME, "false")
    if written.lower() not in ("true", "false"):
        raise ValidationError({NAME: f"must be true or false, not {shown(written[:20])}."})
    return written.lower() == "true"


@contextmanager
def unless_dry_run(request: Request) -> Iterator[None]:
    """What is written to the database inside is taken back at the end of a dry run. The answer must be made inside."""
    if not is_dry_run(request):
        yield
        return
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
