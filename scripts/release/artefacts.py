"""The source archive and the wheel, the same bytes wherever and whenever a commit is built."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

#: The oldest time that a zip archive can hold: of a tree that no commit dates.
OLDEST = 315_532_800
#: Lists the SHA-256 of the other files, as ``sha256sum --check`` reads it.
CHECKSUMS = "SHA256SUMS"


class BuildFailed(Exception):
    """The text is what the tool said."""


def build(checkout: Path, target: Path, epoch: int, *options: str) -> tuple[Path, Path]:
    """Build the source archive, and from it the wheel, into a folder without others; return both.

    ``epoch``: seconds since 1970, which the files in both get. ``options``: of ``python -m build``. Raises BuildFailed.
    """
    umask = os.umask(0o022)  # the modes of files are in a wheel
    try:
        run([sys.executable, "-m", "build", *options, "--outdir", str(target), str(checkout)],
            {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"})
    finally:
        os.umask(umask)
    [source], [wheel] = target.glob("*.tar.gz"), target.glob("*.whl")
    make_reproducible(source, epoch)
    return source, wheel


def make_reproducible(archive: Path, epoch: int) -> None:
    """Write a ``.tar.gz`` again without what differs from one build to the next: times, owners, the order of files."""
    with tarfile.open(archive) as before:
        members = [(member, before.extractfile(member) if member.isfile() else None)
                   for member in sorted(before.getmembers(), key=lambda member: member.name)]
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as after:
            for member, content in members:
                member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                after.addfile(member, content)
    archive.write_bytes(gzip.compress(plain.getvalue(), mtime=epoch))


def write_checksums(folder: Path, files: Iterable[Path]) -> Path:
    """SHA256SUMS of these files of the folder."""
    sums = folder / CHECKSUMS
    sums.write_text("".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
                            for file in sorted(files)))
    return sums


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    """What it prints. Raises BuildFailed where it fails."""
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{' '.join(command)}\n{done.stdout[-8000:]}")
    return done.stdout
