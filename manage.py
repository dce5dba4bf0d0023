#!/usr/bin/env python
"""Django's command line: serve, worker, launch, experiments, token and Django's own commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:  # a variable with a wrong value: the sentence names it
        sys.exit(str(error))


if __name__ == "__main__":
    main()
