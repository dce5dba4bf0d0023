"""Files that are stored for an experiment while somebody deletes it: their rows may be gone before they are there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from django.db import IntegrityError

from nniweb.experiments.models import Experiment
from nniweb.experiments.sql.selected_rows import is_any


class ExperimentDeleted(Exception):
    """The experiment was deleted meanwhile. Nothing of what was to be stored is there."""


@contextlib.contextmanager
def unless_deleted(experiment: int, remove: Callable[[], None]) -> Iterator[None]:
    """Store files and their rows within this, outside of a transaction. Raises ExperimentDeleted.

    The question comes after both: who deletes the experiment later finds the rows, and removes the files.
    ``experiment``: its primary key; ``remove``: removes the files where it is deleted; it may raise OSError.
    """
    failed: Exception | None = None
    try:
        yield
    except (IntegrityError, OSError) as error:  # a row that these refer to is gone; or only a part was written
        failed = error
    if not is_any(Experiment, "id = %s AND deleted_at IS NULL", [experiment]):
        remove()
        raise ExperimentDeleted from failed
    if failed is not None:
        raise failed
