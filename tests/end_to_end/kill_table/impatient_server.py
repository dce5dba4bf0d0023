"""A server that waits so many seconds, and not 20, for a lock on its SQLite database: for tests of what follows then.

    python -m tests.end_to_end.kill_table.impatient_server SECONDS serve
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    seconds, *arguments = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    from django.conf import settings

    settings.DATABASES["default"]["OPTIONS"]["timeout"] = float(seconds)
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", *arguments])


if __name__ == "__main__":
    main()
