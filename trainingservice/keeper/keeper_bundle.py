"""Builds the keeper's zipapp: what a trial machine needs and nothing else, byte for byte reproducible.

The same sources give the same bytes on every machine (files in order, fixed times and rights, not
compressed, because compressed bytes differ between versions of zlib), so the name, made of the
hash, says which keeper it is and a machine that has it need not get it again.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from trialkeeper.durable_files import put_in_place
from trialkeeper.nni_for_trials import FOR_TRIALS

#: Where that module lies in the source.
NNI_SOURCE = "nni"

_MAIN = '''\
import sys

if sys.version_info < (3, 8):
    sys.exit("the trial keeper needs Python 3.8 or newer, this is %s (%s)" % (sys.version.split()[0], sys.executable))

import runpy

runpy.run_module("trialkeeper", run_name="__main__", alter_sys=True)
'''
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class KeeperBundle:
    """A built keeper. ``path`` is named ``keeper-<first 16 digits of sha256>.pyz``."""

    path: Path
    sha256: str


@functools.cache
def keeper_bytes() -> bytes:
    """The zipapp of the keeper that belongs to this code, as it was when it was asked for first."""
    return bundle_bytes(files("trialkeeper"))


def bundle_name() -> str:
    """The name of the zipapp's file."""
    return f"keeper-{hashlib.sha256(keeper_bytes()).hexdigest()[:16]}.pyz"


def build_keeper(folder: Path) -> KeeperBundle:
    """The zipapp as a file in ``folder`` (made if need be); an existing one with the right content is used.

    Written to a temporary name and renamed, so other processes see it whole or not at all.
    Raises OSError where the folder cannot be written.
    """
    content = keeper_bytes()
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


def bundle_bytes(package: Traversable) -> bytes:
    """The zipapp of a package of keeper sources; its ``nni`` folder goes to ``for_trials/nni``."""
    members = {"__main__.py": _MAIN.encode()}
    for name, content in _sources(package, ""):
        if name.startswith(NNI_SOURCE + "/"):
            members[f"{FOR_TRIALS}/{name}"] = content
        else:
            members[f"{package.name}/{name}"] = content
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3  # Unix, whatever we are built on
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, members[name])
    return buffer.getvalue()


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for child in folder.iterdir():
        if child.is_dir():
            if child.name != "__pycache__":
                yield from _sources(child, f"{prefix}{child.name}/")
        elif child.name.endswith(".py"):
            yield prefix + child.name, child.read_bytes()
