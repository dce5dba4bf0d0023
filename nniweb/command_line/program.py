"""What the program ``nniweb`` does, which a checkout has as ``manage.py``: Django's commands and our own.

``launch`` and ``experiments`` with a server's address (``--server``, NNIWEB_SERVER) need neither Django nor settings.
"""

import os
import signal
import sys
from io import TextIOWrapper
from typing import TextIO

from nniweb.process.garbage import do_not_look, look_seldom
from nniweb.process.unread_output import into_nothing


def main(arguments: list[str] | None = None) -> None:
    """Run what the arguments (those of this process) say. Ends with SystemExit where that is no success.

    Whoever reads the output may stop reading (``| head -1``): that is no failure. What failed before stays one. Ctrl-C
    ends the process by its signal.
    """
    _open_closed_streams()
    _write_all_characters()
    try:
        try:
            _run(arguments)
        finally:
            look_seldom()
            sys.stdout.flush()
    except KeyboardInterrupt:  # before a command looks after it, such as in the first second of a server
        _end_by_ctrl_c()
    except BrokenPipeError as error:
        for stream in (sys.stdout, sys.stderr):
            _let_go(stream)
        sys.exit(error.__context__.code if isinstance(error.__context__, SystemExit) else 0)


def _end_by_ctrl_c() -> None:
    """Without a traceback, and so that who started this process sees that the signal ended it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _open_closed_streams() -> None:
    """Of a process that was started without (``>&-``), into nothing: what it opens must not become its output."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, open(number, "w", encoding="utf-8"))  # noqa: SIM115  for as long as the process lives


def _write_all_characters() -> None:
    """What the encoding of the output lacks, such as Latin-1 in an old locale, is written as an escape: no failure."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _let_go(stream: TextIO) -> None:
    """The interpreter flushes the stream when it ends: where nobody reads it, into nothing, or it would complain."""
    try:
        stream.flush()
    except BrokenPipeError:
        into_nothing(stream)


def _run(arguments: list[str] | None) -> None:
    given = sys.argv if arguments is None else arguments
    if given[1:] == ["--version"]:
        print(own_version())  # noqa: T201  what was asked for
        return
    if given[1:] in ([], ["help"], ["--help"], ["-h"]) and "_ARGCOMPLETE" not in os.environ:
        from nniweb.command_line.overview import overview

        print(overview(program_name(given)))  # noqa: T201  what was asked for
        return
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        from nniweb.command_line.completion import complete

        complete()
    if given[1:2] == ["completion"] or given[1:3] == ["help", "completion"]:
        from nniweb.command_line.completion import script

        sys.exit(script(given[2:] if given[1] == "completion" else ["--help"]))
    if given[1:2] == ["nnictl"] or given[1:3] == ["help", "nnictl"]:
        from nniweb.nnictl.program import main as nnictl

        sys.exit(nnictl(given[2:] if given[1] == "nnictl" else ["--help"]))
    if given[1:2] == ["mcp"] or given[1:3] == ["help", "mcp"]:
        from nniweb.mcp_server.stdio import run as mcp

        sys.exit(mcp(given[2:] if given[1] == "mcp" else ["--help"]))
    if is_about_another_server(given[1:]):
        from nniweb.client.commands import run

        sys.exit(run(given[1:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    do_not_look()  # the app does when all is loaded
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ModuleNotFoundError as error:
        sys.exit(_lacks(error.name or "a package", given[1:2]))

    if given[1:2] == ["doctor"]:
        _only_look("--json" in given)
    try:
        # by this name: Django would call itself "python -m django"
        execute_from_command_line([program_name(given), *given[1:]])
    except ImproperlyConfigured as error:  # a variable with a wrong value: the sentence names it
        sys.exit(str(error))
    except Exception as error:
        from nniweb.database.outage_logs import first_line, is_database_away

        if "--traceback" in given or not is_database_away(error):
            raise
        sys.exit(f"{' '.join([program_name(given), *given[1:2]])}: the database cannot be used now "
                 f"({first_line(error)}). What was not done is not done by itself: give the command again when the "
                 "database answers. nniweb doctor says more.")


def _lacks(package: str, command: list[str]) -> str:
    from nniweb.storage.own_files import IN_CHECKOUT, IS_INSTALLED

    advice = ("Install the whole package (pip install nniweb)" if IS_INSTALLED else
              f"make run installs it in .venv: type {' '.join([IN_CHECKOUT, *command])}")
    return (f"{' '.join(['nniweb', *command])} needs {package}, which is not installed. {advice}, or use a server on "
            "another machine with --server, which does not need it.")


def _only_look(as_json: bool) -> None:
    """Load the settings without making anything; what is wrong with them already is the only finding then."""
    import django
    from django.core.exceptions import ImproperlyConfigured

    from nniweb.doctor import findings
    from nniweb.storage import data_folder

    data_folder.only_look()
    try:
        django.setup(set_prefix=False)
    except ImproperlyConfigured as error:
        found = findings.wrong("settings", str(error), "Correct the setting (docs/settings.md describes all settings), "
                                                       "then run the command again. Nothing else can be checked before "
                                                       "that.")
    except OSError as error:
        found = findings.wrong("data folder", f"{error.filename} cannot be read: {error.strerror}.",
                               "Run this command as the user who runs the server, or change the owner of the file "
                               "(chown USER FILE) and run it again.")
    else:
        return
    print(findings.as_json([found]) if as_json else findings.as_text([found]))  # noqa: T201  what was asked for
    sys.exit(findings.exit_status([found]))


def program_name(arguments: list[str]) -> str:
    """As people call it."""
    name = os.path.basename(arguments[0])
    return "python -m nniweb" if name == "__main__.py" else name


def own_version() -> str:
    """Such as ``nniweb 0.3.0``."""
    from nniweb import __version__

    return f"nniweb {__version__}"


def is_about_another_server(arguments: list[str]) -> bool:
    """Whether these arguments of the program are for REST: ``launch`` or ``experiments``, and a server is named."""
    if not arguments or arguments[0] not in ("launch", "experiments"):
        return False
    return bool(os.environ.get("NNIWEB_SERVER")) or any(
        argument == "--server" or argument.startswith("--server=") for argument in arguments)
