"""What the program ``nniweb`` does, which a checkout has as ``manage.py``: Django's commands and our own.

``launch`` and ``experiments`` with a server's address (``--server``, NNIWEB_SERVER) need neither Django nor settings.
"""

import os
import sys
from importlib.metadata import PackageNotFoundError, version


def main(arguments: list[str] | None = None) -> None:
    """Run what the arguments (those of this process) say. Ends with SystemExit where that is no success."""
    given = sys.argv if arguments is None else arguments
    if given[1:] == ["--version"]:
        print(own_version())  # noqa: T201  what was asked for
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(given)
    except ImproperlyConfigured as error:  # a variable with a wrong value: the sentence names it
        sys.exit(str(error))


def own_version() -> str:
    """Such as ``nniweb 0.1.0``; a checkout that was not installed has none."""
    try:
        return f"nniweb {version('nniweb')}"
    except PackageNotFoundError:
        return "nniweb, a checkout"
