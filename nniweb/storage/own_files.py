"""Where the program's files lie that are no Python: templates, static files, browser libraries, examples, documents.

In a checkout they lie at its top; an installed package holds them in ``nniweb/bundled``, where setup.py puts them. Both
have the same folders: ``templates``, ``static``, ``node_modules``, ``examples``, ``docs``, ``docs-site``. Standard
library only.
"""

import os
import sys
from pathlib import Path

import nniweb

_PACKAGE = Path(nniweb.__file__).resolve().parent
_BUNDLED = _PACKAGE / "bundled"

#: Whether this is an installed package (a wheel), and no checkout.
IS_INSTALLED = _BUNDLED.is_dir()
#: The folder that holds ``templates``, ``static`` and the others.
FOLDER = _BUNDLED if IS_INSTALLED else _PACKAGE.parent
#: The documentation as a site. A checkout has it after ``make docs``, an installed package always.
DOCS_SITE = FOLDER / "docs-site"
#: The environment that ``make run`` makes in a checkout.
_ENVIRONMENT = FOLDER / ".venv"
#: What a person types before the name of a command, in the folder of a checkout, after ``make run``.
IN_CHECKOUT = ".venv/bin/python manage.py"


def _command() -> str:
    """Other Pythons than that of ``make run`` are those of containers and of environments that a person activates."""
    if IS_INSTALLED:
        return "nniweb"
    is_of_make_run = _ENVIRONMENT.is_dir() and _ENVIRONMENT.resolve() == Path(sys.prefix).resolve()
    return IN_CHECKOUT if is_of_make_run else "python manage.py"


#: What a person types before the name of a command, with the Python that runs this.
COMMAND = _command()
#: What a person types to start the server, for a sentence.
START = f"{COMMAND} serve" if IS_INSTALLED else f"make run, or {COMMAND} serve"


def default_data_folder() -> Path:
    """Where the data lies unless NNIWEB_DATA says otherwise: beside a checkout's code, else with the user's own data.

    Not in the working directory of an installed program: commands that are given elsewhere would not find the server.
    """
    if not IS_INSTALLED:
        return FOLDER / "data"
    named = os.environ.get("XDG_DATA_HOME", "")
    root = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".local" / "share"
    return root / "nniweb"


def example_config() -> str:
    """The path, as a person types it, of the file of an experiment that needs no packages."""
    inner = os.path.join("examples", "quadratic", "config.yml")
    return str(FOLDER / inner) if IS_INSTALLED else inner
