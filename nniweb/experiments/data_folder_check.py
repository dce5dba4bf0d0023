"""``manage.py check``: nobody but the server's user may look into the data folder."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register

from nniweb.storage.data_folder import who_else_may_look


@register("security")
def data_folder_is_closed(**_: Any) -> list[CheckMessage]:
    """A warning where the data folder, with keys and database, is open to others and is not ours to close."""
    others = who_else_may_look(settings.DATA_FOLDER) if settings.DATA_FOLDER.is_dir() else ""
    if not others:
        return []
    return [Warning(f"The data folder {settings.DATA_FOLDER} is accessible to {others}. It contains the database and "
                    "the keys.",
                    hint=f"chmod 700 {settings.DATA_FOLDER}", id="nniweb.W002")]
