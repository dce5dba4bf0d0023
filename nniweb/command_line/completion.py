"""Completion in shells: what could follow what was typed after ``nniweb``. ``argcomplete`` knows the shells."""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys

from nniweb.client.commands import make_parser
from nniweb.management import commands as own_commands

SHELLS = ("bash", "zsh", "fish")
#: Commands of Django that whoever runs a server needs; it has more, for developers.
_OF_DJANGO = ("check", "changepassword", "createsuperuser", "migrate")
_BY_REST = ("launch", "experiments")


def script(arguments: list[str]) -> int:
    """Print what a shell must run at its start to complete ``nniweb``. Returns the exit status."""
    try:
        from argcomplete.shell_integration import shellcode
    except ModuleNotFoundError:
        sys.stderr.write("Completion needs argcomplete, which is not installed. Install it with: pip install "
                         "argcomplete\n")
        return 1

    parser = argparse.ArgumentParser(prog="nniweb completion", description=(
        "Print a shell script that completes commands and options of nniweb. In ~/.bashrc or ~/.zshrc: eval \"$(nniweb "
        "completion bash)\" (zsh: after compinit); for fish: nniweb completion fish > "
        "~/.config/fish/completions/nniweb.fish"))
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(arguments).shell
    sys.stdout.write(shellcode(["nniweb"], shell=shell) + "\n")
    return 0


def complete() -> None:
    """Answer the shell that asks (argcomplete's variables hold what was typed), and end this process."""
    import argcomplete

    typed = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(_parser(typed[1] if len(typed) > 1 else ""), always_complete_options="long")


def _parser(command: str) -> argparse.ArgumentParser:
    """All commands, with the options of the one that was typed: to know those of all would take a second."""
    parser = argparse.ArgumentParser(prog="nniweb")
    commands = parser.add_subparsers()
    for name in sorted({*command_names(), *_OF_DJANGO, "completion", "mcp", "nnictl"}):
        parents = [_parser_of(name)] if name == command else []
        commands.add_parser(name, parents=parents, add_help=not parents)
    return parser


def command_names() -> list[str]:
    """Our own commands."""
    return [module.name for module in pkgutil.iter_modules(own_commands.__path__)]


def _parser_of(name: str) -> argparse.ArgumentParser:
    if name in _BY_REST:
        return make_parser(name)
    if name == "completion":
        parser = argparse.ArgumentParser()
        parser.add_argument("shell", choices=SHELLS)
        return parser
    if name == "mcp":
        from nniweb.mcp_server.stdio import make_parser as make_mcp_parser

        return make_mcp_parser()
    if name == "nnictl":
        from nniweb.nnictl.arguments import make_parser as make_nnictl_parser

        return make_nnictl_parser()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "nniweb.settings")
    import django
    from django.core.management import get_commands, load_command_class

    django.setup()
    return load_command_class(get_commands()[name], name).create_parser("nniweb", name)
