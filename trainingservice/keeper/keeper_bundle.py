"""Builds the keeper's zipapp: what a trial machine needs and nothing else, byte for byte reproducible.

The same sources give the same bytes on every machine (files in order, fixed times and rights, not
compressed, because compressed bytes differ between versions of zlib), so the name, made of the
hash, says which keeper it is and a machine that has it need not get it again.

Python compiles what it imports from a zipapp at each start, which is half of what the start of a keeper takes. The
zipapp that is laid on a disk therefore has each module compiled, too, by the server's Python, without the docstrings of
functions and the columns of lines: the same sources and the same Python give the same bytes. A Python of another
version passes over what it cannot use and compiles the source.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.util
import inspect
import io
import marshal
import os
import py_compile
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import CodeType

from trialkeeper.durable_files import put_in_place
from trialkeeper.nni_for_trials import FOR_TRIALS

#: Where that module lies in the source.
NNI_SOURCE = "nni"
#: Of it what trials import beside a library that takes much longer than compiling this does.
_BESIDE_LIBRARIES = frozenset(f"{NNI_SOURCE}/{name}.py" for name in (
    "hydra", "keras", "lightgbm", "lightning", "optuna", "sklearn", "transformers", "xgboost"))

_MAIN = '''\
import sys

if sys.version_info < (3, 8):
    sys.exit("the trial keeper needs Python 3.8 or newer, this is %s (%s)" % (sys.version.split()[0], sys.executable))

from trialkeeper.__main__ import exit_with, main

exit_with(main())
'''
_TIME = (1980, 1, 1, 0, 0, 0)
#: In the head of compiled code (PEP 552): it belongs to the source of this hash, and is not compared with it again.
_BY_HASH_UNCHECKED = 0b01
#: Instructions that use the first constant; RETURN_CONST came with Python 3.12.
_USES_OF_FIRST = [bytes((dis.opmap[name], 0)) for name in ("LOAD_CONST", "RETURN_CONST") if name in dis.opmap]
#: The newest form of marshalled code without references, which depend on what else a process holds.
_WITHOUT_REFERENCES = 2


@dataclass(frozen=True)
class KeeperBundle:
    """A built keeper. ``path`` is named ``keeper-<first 16 digits of sha256>.pyz``."""

    path: Path
    sha256: str


@functools.cache
def keeper_bytes() -> bytes:
    """The zipapp of the keeper that belongs to this code, as it was when it was asked for first; sources alone."""
    return bundle_bytes(files("trialkeeper"))


@functools.cache
def compiled_keeper_bytes() -> bytes:
    """The same with what this Python compiles of it: three times as large. It starts in half the time."""
    return bundle_bytes(files("trialkeeper"), compiled=True)


def bundle_name() -> str:
    """The name of the file that ``build_keeper`` makes."""
    return f"keeper-{hashlib.sha256(compiled_keeper_bytes()).hexdigest()[:16]}.pyz"


def build_keeper(folder: Path) -> KeeperBundle:
    """The compiled zipapp as a file in ``folder`` (made if need be); an existing one with the right content is used.

    Written to a temporary name and renamed, so other processes see it whole or not at all.
    Raises OSError where the folder cannot be written.
    """
    content = compiled_keeper_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    path = folder / bundle_name()
    if not path.is_file() or path.read_bytes() != content:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".keeper-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                os.fchmod(stream.fileno(), 0o644)
            put_in_place(temporary, str(path))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    return KeeperBundle(path, sha256)


def bundle_bytes(package: Traversable, *, compiled: bool = False) -> bytes:
    """The zipapp of a package of keeper sources; its ``nni`` folder goes to ``for_trials/nni``.

    ``compiled``: each module but those of _BESIDE_LIBRARIES is there as compiled by this Python, too.
    """
    members = {"__main__.py": _MAIN.encode()}
    for name, content in _sources(package, ""):
        top = FOR_TRIALS if name.startswith(NNI_SOURCE + "/") else package.name
        members[f"{top}/{name}"] = content
        if compiled and name not in _BESIDE_LIBRARIES:
            members[f"{top}/{name}c"] = _compiled(package, name, content, f"{top}/{name}")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3  # Unix, whatever we are built on
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, members[name])
    return buffer.getvalue()


def _compiled(package: Traversable, name: str, source: bytes, shown_name: str) -> bytes:
    """The content of the file with compiled code. ``shown_name``: of the source, in tracebacks."""
    code = _code_of(package, name, source)
    head = importlib.util.MAGIC_NUMBER + _BY_HASH_UNCHECKED.to_bytes(4, "little") + importlib.util.source_hash(source)
    return head + marshal.dumps(_renamed(code, shown_name), _WITHOUT_REFERENCES)


def _code_of(package: Traversable, name: str, source: bytes) -> CodeType:
    """From Python's own store of compiled code, a tenth of the work. What is not there yet is put there, as an import
    would: no server imports all that a keeper has, and each would compile the rest again.
    """
    if isinstance(package, Path):
        code = _kept_code(package / name)
        if code is None and not sys.dont_write_bytecode:
            with contextlib.suppress(OSError, NotImplementedError, py_compile.PyCompileError):
                py_compile.compile(
                    str(package / name), cfile=importlib.util.cache_from_source(str(package / name), optimization=""),
                    doraise=True, optimize=0, invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
                code = _kept_code(package / name)
        if code is not None:
            return code
    return compile(source, name, "exec", dont_inherit=True, optimize=0)


def _kept_code(path: Path) -> CodeType | None:
    """What Python has kept of this source; None where that is nothing, of another source, or damaged."""
    try:
        kept = Path(importlib.util.cache_from_source(str(path), optimization="")).read_bytes()
        about = path.stat()
    except (OSError, NotImplementedError):
        return None
    if kept[:16] != importlib.util.MAGIC_NUMBER + b"\0\0\0\0" + _word(int(about.st_mtime)) + _word(about.st_size):
        return None
    try:
        code = marshal.loads(memoryview(kept)[16:])
    except (EOFError, ValueError, TypeError):  # a power cut
        return None
    return code if isinstance(code, CodeType) else None


def _word(number: int) -> bytes:
    return (number & 0xFFFFFFFF).to_bytes(4, "little")


def _renamed(code: CodeType, name: str) -> CodeType:
    """For a file of that name, and without docstrings of functions: nobody reads them there, and all carry them."""
    constants = [_renamed(one, name) if isinstance(one, CodeType) else one for one in code.co_consts]
    # a function's first constant is its docstring, or the value None; text that it uses itself stays
    if code.co_flags & inspect.CO_OPTIMIZED and constants and isinstance(constants[0], str) \
            and not any(use in code.co_code for use in _USES_OF_FIRST):
        constants[0] = None
    return code.replace(co_filename=name, co_consts=tuple(constants), co_linetable=_lines_of(code))


def _lines_of(code: CodeType) -> bytes:
    """The table of lines without columns, which are a third of all compiled code and mark a word in tracebacks.

    Entries of Python 3.11 and later: 0x80, kind and length, then the difference of the line (kind 13); kind 15 has no
    line.
    """
    table, before = bytearray(), code.co_firstlineno
    for start, end, line in code.co_lines():
        left = (end - start) // 2  # instructions have two bytes
        if not left:
            continue
        if line is None:
            head, change, none = 0x80 | 15 << 3, b"", b""
        else:
            head, change, none = 0x80 | 13 << 3, _signed(line - before), b"\0"
            before = line
        while left > 8:
            table.append(head | 7)
            table += change
            change, left = none, left - 8
        table.append(head | left - 1)
        table += change
    return bytes(table)


@functools.cache
def _signed(number: int) -> bytes:
    """Six bits in each byte, the lowest first; the lowest bit of all is the sign."""
    rest, digits = abs(number) << 1 | (number < 0), bytearray()
    while rest > 63:
        digits.append(0x40 | rest & 63)
        rest >>= 6
    return bytes((*digits, rest))


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for child in folder.iterdir():
        if child.is_dir():
            if child.name != "__pycache__":
                yield from _sources(child, f"{prefix}{child.name}/")
        elif child.name.endswith(".py"):
            yield prefix + child.name, child.read_bytes()
