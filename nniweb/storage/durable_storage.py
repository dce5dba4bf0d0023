"""Where kept files and code archives lie: in the data folder, flushed to the disk before anybody counts on them."""

import contextlib
import os
import secrets
from typing import Any

from django.core.files.storage import FileSystemStorage

from trialkeeper.durable_files import flush_folder, put_in_place


class DurableFileSystemStorage(FileSystemStorage):
    """Django's storage, whose ``save`` returns when the file survives a loss of power.

    Others see the whole file or none. Raises OSError, as Django's.
    """

    def _save(self, name: str, content: Any) -> str:
        path = self.path(name)
        folder, had_to_be_made = os.path.dirname(path), []
        while not os.path.isdir(folder):
            had_to_be_made.append(folder)
            folder = os.path.dirname(folder)
        draft_name = f"{name}.{secrets.token_hex(4)}.draft"
        try:
            super()._save(draft_name, content)  # type: ignore[misc]  # private, and what Django's own storages extend
            put_in_place(self.path(draft_name), path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(self.path(draft_name))
            raise
        for made in had_to_be_made:
            flush_folder(os.path.dirname(made))
        return name
