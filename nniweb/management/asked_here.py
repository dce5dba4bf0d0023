"""Commands that change something: the audit log says which, and who on this machine gave it."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand

from nniweb.experiments.access.request_actor import asked_by


class AskedHere(BaseCommand):
    """What the command does is put down to whoever gave it."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        with asked_by(f"command {type(self).__module__.rpartition('.')[2]} by {account_here()}"):
            return super().execute(*args, **options)


def account_here() -> str:
    """The operating system's name of who runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as containers have
        return "an account without a name"
