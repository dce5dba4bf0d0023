"""A stored row that somebody is about to change, or to count what belongs to it."""

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model

from nniweb.experiments.errors import Refused


def hold(row: Model) -> None:
    """Bring the row up to date. Nobody else changes or holds it until the end of the transaction; rows that refer to it
    are made meanwhile. Raises Refused where it is there no more.
    """
    try:
        row.refresh_from_db(from_queryset=row.__class__._default_manager.select_for_update(no_key=True))
    except ObjectDoesNotExist:
        raise Refused(f"The {row._meta.verbose_name} was removed meanwhile.") from None
