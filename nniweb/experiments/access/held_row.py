"""A stored row that somebody is about to change."""

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model

from nniweb.experiments.errors import Refused


def hold(row: Model) -> None:
    """Bring the row up to date. Nobody else changes it until the end of the transaction. Raises Refused where it is
    there no more.
    """
    try:
        row.refresh_from_db(from_queryset=type(row)._default_manager.select_for_update())
    except ObjectDoesNotExist:
        raise Refused(f"The {row._meta.verbose_name} was removed meanwhile.") from None
