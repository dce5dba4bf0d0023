"""Whatever an archive holds: it is unpacked into its folder, or refused with a sentence; nothing else is touched."""

import gzip
import io
import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nniweb.experiments.launch.uploaded_code import UploadRefused, unpack
from trialkeeper.child_process import CannotStart
from trialkeeper.code_folder import extract_archive

PARTS = st.sampled_from(["..", ".", "a", "b", "link", "", "~", "a\x00b", "...", "é", "a" * 300, "C:", "..\\x"])
NAMES = st.builds(lambda start, parts: start + "/".join(parts), st.sampled_from(["", "", "", "/", "//", "./"]),
                  st.lists(PARTS, min_size=1, max_size=4))
KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE,
                         tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.CONTTYPE, b"Z"])
MEMBERS = st.lists(st.tuples(NAMES, KINDS, NAMES, st.integers(0, 0o7777), st.binary(max_size=20)), max_size=6)


def tar_of(members: list[tuple[str, bytes, str, int, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, link, mode, data in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, link, mode
            info.size = len(data) if kind in (tarfile.REGTYPE, tarfile.CONTTYPE) else 0
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: list[tuple[str, bytes, str, int, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, kind, link, mode, data in members:
            info = zipfile.ZipInfo("x")
            info.filename = name  # as it is: the constructor would mend it
            is_link = kind == tarfile.SYMTYPE
            info.external_attr = (mode | (stat.S_IFLNK if is_link else 0)) << 16
            archive.writestr(info, link.encode() if is_link else data)
    return out.getvalue()


def unpack_somewhere(content: bytes, unpacked: Callable[[bytes, Path], None]) -> None:
    """Nothing may come into being, or change, beside the folder; and no link in it may lead out of it."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        (top / "work").mkdir()
        for canary in (top / "a", top / "work" / "b", top / "work" / "link"):
            canary.write_text("as it was")
        before = {path: path.read_bytes() for path in top.rglob("*") if path.is_file()}
        unpacked(content, top / "work" / "code")
        # beside its folder a keeper unpacks into code.partial first
        outside = {path: path.read_bytes() for path in top.rglob("*") if path.is_file()
                   and not str(path.relative_to(top)).startswith(("work/code/", "work/code.partial/"))}
        assert outside == before
        for path in (top / "work" / "code").rglob("*"):
            assert not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(top / "work" / "code")
            assert path.is_symlink() or not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) or path.is_dir()


def upload(content: bytes, folder: Path) -> None:
    folder.mkdir()
    try:
        unpack(io.BytesIO(content), folder)
    except UploadRefused:
        return


def fetch(content: bytes, folder: Path) -> None:
    """As a keeper unpacks what its server sent: whole or not at all."""
    archive = folder.with_name("archive")
    archive.write_bytes(content)
    try:
        extract_archive(str(archive), str(folder))
    except (CannotStart, OSError):
        assert not folder.exists()
    finally:
        archive.unlink()


@given(MEMBERS)
def test_no_tar_gets_out_of_its_folder(members: list[tuple[str, bytes, str, int, bytes]]) -> None:
    unpack_somewhere(gzip.compress(tar_of(members), 1), upload)


@given(MEMBERS)
def test_no_zip_gets_out_of_its_folder(members: list[tuple[str, bytes, str, int, bytes]]) -> None:
    unpack_somewhere(zip_of(members), upload)


@given(MEMBERS)
def test_no_archive_gets_out_of_a_keepers_folder(members: list[tuple[str, bytes, str, int, bytes]]) -> None:
    unpack_somewhere(gzip.compress(tar_of(members), 1), fetch)


@pytest.mark.slow
@given(MEMBERS, st.sampled_from([tar_of, zip_of]), st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)),
                                                            min_size=1, max_size=8), st.integers(0, 3000))
def test_no_damage_is_more_than_a_sentence(members: list[tuple[str, bytes, str, int, bytes]],
                                           packed: Callable[..., bytes], damage: list[tuple[int, int]],
                                           cut: int) -> None:
    content = bytearray(packed(members))
    for place, value in damage:
        content[place % len(content)] = value
    damaged = bytes(content[:max(1, len(content) - cut)] if cut < 1000 else content)
    for whole in (damaged, gzip.compress(damaged, 1), gzip.compress(damaged, 1)[:-5]):
        unpack_somewhere(whole, upload)
        unpack_somewhere(whole, fetch)
