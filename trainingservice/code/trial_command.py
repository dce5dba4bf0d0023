"""What a trial's command will run, as far as its text tells: which Python, which script, which other files.

Only a command that says it plainly is understood. Nothing is run, and where the text leaves it open nothing is claimed.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from dataclasses import dataclass
from functools import lru_cache

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
#: Variables that decide which Python a name means, and what it can import.
_DECISIVE = frozenset({"PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX"})
#: Programs that run what follows them, without changing which program a name means.
_PREFIXES = frozenset({"exec", "nohup", "time", "command"})
#: Programs that leave alone what can be imported. After any other one nothing is said of the script.
_HARMLESS = frozenset({"cd", "echo", "mkdir", "ulimit", "set", "sleep", "true", "date", "pwd", "ls", "export", "umask"})
#: Programs that choose another Python.
_CHOOSERS = frozenset({"source", ".", "eval", "conda", "mamba", "micromamba", "module", "pyenv", "workon", "poetry",
                       "pipenv", "uv", "env", "spack"})
#: Shells, whose first argument is a script.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
#: Words that begin something else than the call of a program.
_KEYWORDS = frozenset({"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
                       "select", "function", "{", "}", "!", "[[", "((", "time", "coproc"})
#: What shells have themselves.
_OF_SHELLS = frozenset({
    ".", ":", "[", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "echo", "enable", "eval",
    "exec", "exit", "export", "false", "fg", "getopts", "hash", "help", "jobs", "kill", "let", "local", "logout",
    "printf", "pwd", "read", "readonly", "return", "set", "shift", "shopt", "source", "test", "times", "trap", "true",
    "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait"})
#: Options of Python that have their value in the next word.
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_EXPANDED = re.compile(r"[$`*?\[~{]")
#: Longer commands are not taken apart.
_LONGEST = 20_000


@dataclass(frozen=True)
class PythonCall:
    """``program`` is a name to look for on the PATH, or a path. ``folder``: where it is called, from the working
    directory; "" is that directory itself. ``script`` and ``module``: at most one is given, and neither where the text
    does not tell it.
    """

    program: str
    folder: str = ""
    script: str = ""
    module: str = ""


@lru_cache(maxsize=256)
def python_call(command: str) -> PythonCall | None:
    """The first Python that the command calls. None where it calls none itself, where it first chooses another one
    (``source``, ``conda activate``, ``PATH=...``), and where it cannot be read.
    """
    folder, is_plain = "", True
    try:
        calls = list(_simple_commands(command))
    except ValueError:
        return None
    for written in calls:
        words = list(written)
        while words and (words[0] in _PREFIXES or (given := _ASSIGNMENT.match(words[0]))):
            if words[0] not in _PREFIXES and given and given[1] in _DECISIVE:
                return None
            words.pop(0)
        if not words:
            continue
        program = words[0]
        if program in _CHOOSERS or (program == "export" and any(_is_decisive(word) for word in words[1:])):
            return None
        if _PYTHON.fullmatch(posixpath.basename(program)):
            if _EXPANDED.search(program):
                return None
            script, module = _script_of(words[1:]) if is_plain else ("", "")
            return PythonCall(program, "" if folder == "." else folder, script, module)
        if program == "cd":
            if len(words) != 2 or _EXPANDED.search(words[1]) or words[1].startswith("-"):
                return None
            folder = posixpath.normpath(posixpath.join(folder, words[1]))
        is_plain = is_plain and program in _HARMLESS
    return None


def called_file(command: str) -> str:
    """The file that the command runs first, from its working directory: a script of Python or of a shell, or a program
    that is named by a relative path. "" where the text does not tell it, or an earlier program may make it.
    """
    folder, words = _first_call(command)
    program = posixpath.basename(words[0]) if words else ""
    if _PYTHON.fullmatch(program):
        file = _script_of(words[1:])[0]
    elif program in _SHELLS:
        file = _script_of_shell(words[1:])
    else:
        file = words[0] if words and "/" in words[0] and not _EXPANDED.search(words[0]) else ""
    return "" if not file or file.startswith("/") else posixpath.normpath(posixpath.join(folder, file))


def called_program(command: str) -> str:
    """The name of the program that the command runs first, where it is looked for on the PATH; "" for Python, for what
    shells have themselves, and where the text does not tell it.
    """
    _, words = _first_call(command)
    if not words or words[0] in _OF_SHELLS or words[0] in _CHOOSERS or "/" in words[0] or _PYTHON.fullmatch(words[0]) \
            or _EXPANDED.search(words[0]):
        return ""
    return words[0]


def _first_call(command: str) -> tuple[str, list[str]]:
    """Folder and words of the first call of a program that may change what a file or a name means; no words where the
    text does not tell it.
    """
    folder = ""
    try:
        calls = list(_simple_commands(command))
    except ValueError:
        return "", []
    for written in calls:
        words = list(written)
        while words and (words[0] in _PREFIXES or (given := _ASSIGNMENT.match(words[0]))):
            if words[0] not in _PREFIXES and given and given[1] in _DECISIVE:
                return "", []
            words.pop(0)
        if not words or words[0] in _KEYWORDS:
            return "", []
        if words[0] == "cd":
            if len(words) != 2 or _EXPANDED.search(words[1]) or words[1].startswith(("-", "/")):
                return "", []
            folder = posixpath.normpath(posixpath.join(folder, words[1]))
        elif words[0] not in _HARMLESS:
            return folder, words
        elif words[0] == "export" and any(_is_decisive(word) for word in words[1:]):
            return "", []
    return "", []


def _script_of_shell(words: list[str]) -> str:
    """The script of a shell's arguments; "" where the text does not tell it."""
    for word in words:
        if word.startswith(("-", "+")):
            if "c" in word or "s" in word or word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
                return ""
        else:
            return "" if _EXPANDED.search(word) or not word.strip("<>") else word
    return ""


def _is_decisive(word: str) -> bool:
    given = _ASSIGNMENT.match(word)
    return given is not None and given[1] in _DECISIVE


def _simple_commands(command: str) -> list[list[str]]:
    """Its words, a list for each simple command. Raises ValueError for text that is no shell command."""
    if len(command) > _LONGEST:
        raise ValueError("too long")
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    calls: list[list[str]] = [[]]
    for word in lexer:
        if word and not word.strip("();|&\n"):
            calls.append([])
        else:
            calls[-1].append(word)
    return [call for call in calls if call]


def _script_of(words: list[str]) -> tuple[str, str]:
    """Script and module of Python's arguments."""
    rest = iter(words)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif word == "-m":
            module = next(rest, "")
            return "", "" if _EXPANDED.search(module) else module
        elif word.startswith("-") or not word.strip("<>"):
            if word == "-" or word.startswith("-c") or not word.strip("<>"):
                return "", ""
        else:
            return ("" if _EXPANDED.search(word) else word), ""
    return "", ""
