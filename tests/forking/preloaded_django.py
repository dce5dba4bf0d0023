"""Django, set up with all of this project for an installation that nobody uses, and taken over for another one.

``load`` is for the process that forks programs (programs.py), ``take_over`` for a new process, whose environment
is that of its installation: its settings take the place of the others, and its data folder is prepared as when Django
is set up. What was imported may have read settings. Those that it read have to be equal, or ``take_over`` refuses, and
the program needs a process that has not loaded Django. Those that belong to one installation are the exception: they
are read when they are needed, and what Django keeps of them is forgotten.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SETTINGS = "nniweb.settings"
#: The databases for which Django can be set up, and an address where there is none: nobody asks it.
DATABASES = {"sqlite": "", "postgresql": "postgresql://nobody@127.0.0.1:9/nobodys"}
#: Commands of manage.py that set up Django whatever their arguments are.
COMMANDS = frozenset({"serve", "worker", "shell", "token", "sign-in-link", "migrate", "nni-port", "backup", "algo"})
#: Settings of one installation that are read when Django is set up.
_OWN = frozenset({"DATABASES", "DATA_FOLDER", "INSTALLATION_ID", "LOGGING", "SEAL_KEYS", "SECRET_KEY", "STATIC_ROOT"})
#: What ``serve`` loads when it opens, but for what waits for events: those must not be shared.
_IMPORTED = ("nniweb.urls", "nniweb.live.routing", "nniweb.live.signed_in", "nniweb.keeperapi.application",
             "nniweb.worker.supervisor", "nniweb.startup.first_start", "nniweb.startup.server_opening",
             "nniweb.middleware.senders", "nniweb.nniapi.ports", "nniweb.nniapi.open_ports", "nniweb.upgrades.refusal",
             "nniweb.mcp_server.address", "nniweb.management.commands.migrate", "channels.auth", "csp.middleware",
             "django.contrib.auth.middleware", "django.contrib.messages.middleware",
             "django.contrib.sessions.middleware", "django.middleware.clickjacking", "django.middleware.common",
             "django.middleware.security")
_SERVER = "daphne.server"
#: Modules that end by running a command of manage.py.
_OWN_PROGRAMS = "tests.end_to_end.kill_table."


def load(database: str) -> None:
    """Set Django up for one of DATABASES. The folder that this takes is removed again, and nothing is left open."""
    with tempfile.TemporaryDirectory(prefix="nniweb-nobodys-") as folder:
        nobodys = {"NNIWEB_DATA": folder, "DJANGO_SETTINGS_MODULE": SETTINGS,
                   "NNIWEB_DATABASE_URL": DATABASES[database]}
        os.environ.update(nobodys)
        sys.modules[_SERVER] = types.ModuleType(_SERVER)  # it makes an event loop when it is imported
        import daphne
        import django
        from django.db import connections
        from django.db.migrations.loader import MigrationLoader
        from django.urls import get_resolver

        django.setup()
        for name in _IMPORTED:
            importlib.import_module(name)
        get_resolver().url_patterns  # noqa: B018  # imports all pages
        MigrationLoader(None)
        del sys.modules[_SERVER]
        if hasattr(daphne, "server"):
            del daphne.server
        for connection in connections.all(initialized_only=True):
            assert connection.connection is None, "a database was asked before the programs are forked"
        for name in nobodys:
            del os.environ[name]


def take_over() -> bool:
    """Whether the settings of this process's environment, and its data folder, have taken the others' place."""
    from django.conf import Settings, settings
    from django.core.exceptions import ImproperlyConfigured

    held: Any = settings
    if os.environ.get("DJANGO_SETTINGS_MODULE", SETTINGS) != SETTINGS:
        return False
    del sys.modules[SETTINGS]
    try:
        own = Settings(SETTINGS)
        read = set(vars(held)) - {"_wrapped"}  # kept there by Django when they are read first
        before = held._wrapped
        if any(getattr(own, name) != getattr(before, name) for name in read - _OWN) \
                or _engines(own) != _engines(before):
            return False
        changed = [name for name in dir(own) if name.isupper() and name != "DATABASES"
                   and getattr(own, name) != getattr(before, name, None)]
        held._wrapped = own
        _forget(changed)
        from django.apps import apps

        apps.get_app_config("nniweb").ready()
    except (ImproperlyConfigured, OSError):
        return False  # the program finds it out by itself, and says so
    importlib.import_module(_SERVER)
    return True


def _engines(settings: Any) -> list[str]:
    return [database["ENGINE"] for database in settings.DATABASES.values()]


def _forget(changed: list[str]) -> None:
    """What Django keeps of the settings before."""
    from django.db import connections
    from django.test.signals import setting_changed

    handler: Any = connections
    for connection in connections.all(initialized_only=True):
        del handler[connection.alias]
    vars(handler).pop("settings", None)
    handler._settings = None
    for name in changed:
        setting_changed.send(sender=None, setting=name, value=None, enter=True)


def database_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """For which of DATABASES such a program sets Django up, as far as that can be told without trying; "" for none."""
    if arguments[0] == "-m":
        sets_up = arguments[1].startswith(_OWN_PROGRAMS) and "serve" in arguments
    elif Path(arguments[0]).name == "manage.py":
        sets_up = len(arguments) > 1 and arguments[1] in COMMANDS
    else:
        sets_up = arguments[-1] == "nniweb.asgi:application"
    return "" if not sets_up else "postgresql" if environment.get("NNIWEB_DATABASE_URL") else "sqlite"
