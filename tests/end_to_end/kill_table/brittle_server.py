"""A server whose worker fails for as long as a file is there.

    python -m tests.end_to_end.kill_table.brittle_server FILE serve
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unittest import mock


def main() -> None:
    file, *arguments = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    import django

    django.setup()
    from django.core.management import execute_from_command_line

    from nniweb.worker import supervisor

    wait = supervisor.Supervisor._wait

    def brittle(*args: Any) -> Any:
        if Path(file).exists():
            raise RecursionError("a defect")
        return wait(*args)

    with mock.patch.object(supervisor.Supervisor, "_wait", brittle):
        execute_from_command_line(["manage.py", *arguments])


if __name__ == "__main__":
    main()
