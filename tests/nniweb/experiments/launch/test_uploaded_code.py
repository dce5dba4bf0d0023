"""Uploaded archives are unpacked with suspicion."""

import gzip
import io
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from nniweb.experiments.launch import uploaded_code
from nniweb.experiments.launch.uploaded_code import UploadRefused, unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    return tmp_path / "code"


def tar_with(*members: tuple[tarfile.TarInfo, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    out.seek(0)
    return out


def member(name: str, mode: int = 0o644, type: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname = mode, type, link
    return info


def zip_with(name: str, data: bytes = b"", mode: int = 0) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)
    out.seek(0)
    return out


def outside_of(folder: Path) -> list[Path]:
    return [path for path in folder.parent.rglob("*") if not path.is_relative_to(folder)]


def test_a_tar_with_folders_and_execute_bits_is_unpacked(folder: Path) -> None:
    unpack(tar_with((member("./a b/ü.py"), b"1"), (member("run.sh", 0o755), b"2"),
                    (member("empty", type=tarfile.DIRTYPE), b"")), folder)
    assert (folder / "a b" / "ü.py").read_bytes() == b"1"
    assert (folder / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (folder / "a b" / "ü.py").stat().st_mode & stat.S_IXUSR
    assert (folder / "empty").is_dir()


def test_a_zip_with_execute_bits_is_unpacked(folder: Path) -> None:
    unpack(zip_with("deep/run.sh", b"1", stat.S_IFREG | 0o755), folder)
    assert (folder / "deep" / "run.sh").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("archive", [
    tar_with((member("../evil"), b"1")), tar_with((member("/tmp/evil"), b"1")),
    tar_with((member("a/../../evil"), b"1")),
    tar_with((member("../evil", type=tarfile.DIRTYPE), b"")), zip_with("../evil", b"1"), zip_with("/evil", b"1"),
    zip_with("../evil/")], ids=lambda archive: "")
def test_names_that_lead_out_are_refused(folder: Path, archive: io.BytesIO) -> None:
    with pytest.raises(UploadRefused, match="points outside"):
        unpack(archive, folder)
    assert outside_of(folder) == []


@pytest.mark.parametrize(("kind", "word"), [(tarfile.SYMTYPE, "link"), (tarfile.LNKTYPE, "link"),
                                            (tarfile.FIFOTYPE, "ordinary"), (tarfile.CHRTYPE, "ordinary")])
def test_links_and_devices_are_refused_by_name(folder: Path, kind: bytes, word: str) -> None:
    with pytest.raises(UploadRefused, match=f"odd.*{word}"):
        unpack(tar_with((member("odd", type=kind, link="/etc/passwd"), b"")), folder)


def test_a_link_in_a_zip_is_refused(folder: Path) -> None:
    with pytest.raises(UploadRefused, match=r"odd.*link"):
        unpack(zip_with("odd", b"/etc/passwd", stat.S_IFLNK | 0o777), folder)


def test_a_bomb_ends_at_the_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_code, "MAX_BYTES", 1000)
    for archive in (tar_with((member("big"), bytes(2000))), zip_with("big", bytes(2000)),
                    tar_with((member("a"), bytes(600)), (member("b"), bytes(600)))):
        with pytest.raises(UploadRefused, match="larger than"):
            unpack(archive, folder)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 1000


def test_a_tar_that_never_ends_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_code, "_MAX_TAR_BYTES", 100_000)
    with pytest.raises(UploadRefused, match="larger than"):
        unpack(io.BytesIO(gzip.compress(bytes(10_000_000))), folder)


def test_too_many_entries_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_code, "MAX_ENTRIES", 3)
    with pytest.raises(UploadRefused, match="more than 3"):
        unpack(tar_with(*((member(f"f{n}"), b"") for n in range(4))), folder)


def test_a_zip_whose_directory_has_too_many_entries_is_refused_before_there_is_an_object_for_each(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploaded_code, "MAX_ENTRIES", 2)
    monkeypatch.setattr(zipfile, "ZipInfo", None)
    entry = b"PK\x01\x02" + bytes(24) + b"\1" + bytes(17) + b"a"
    ends = b"PK\x05\x06" + bytes(4) + 2 * struct.pack("<H", 3) + struct.pack("<LLH", 3 * len(entry), 30, 0)
    with pytest.raises(UploadRefused, match="more than 2 files"):
        unpack(io.BytesIO(b"PK\x03\x04" + bytes(26) + 3 * entry + ends), folder)


def test_a_zip_with_a_comment_is_unpacked(folder: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.py", "1")
        archive.comment = b"c" * 60_000
    unpack(io.BytesIO(out.getvalue()), folder)
    assert (folder / "a.py").read_text() == "1"


def test_a_header_in_which_numbers_would_be_looked_for_for_hours_is_refused(folder: Path) -> None:
    header = member("x", type=tarfile.XHDTYPE)
    header.size = 1_000_000
    tar = header.tobuf(tarfile.USTAR_FORMAT) + b"1" * header.size + bytes(-header.size % 512)
    with pytest.raises(UploadRefused, match="more than 100 digits"):
        unpack(io.BytesIO(gzip.compress(tar + member("a.py").tobuf() + bytes(1024))), folder)


def test_headers_that_would_fill_the_memory_are_refused_and_long_names_are_taken(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "/".join(["9" * 90] * 20)
    unpack(tar_with((member(f"{name}/a.py"), b"1" * 300_000), (member("b.py"), b"2")), folder)
    assert (folder / name / "a.py").stat().st_size == 300_000
    monkeypatch.setattr(uploaded_code, "_MAX_HEADER_BYTES", 5000)
    with pytest.raises(UploadRefused, match="The headers of the archive"):
        unpack(tar_with(*((member(f"{number}.py"), b"") for number in range(10))), folder)


def test_a_zip_that_lies_about_its_size_is_refused(folder: Path) -> None:
    data = bytearray(zip_with("big", bytes(100_000)).getvalue())
    # the claimed size, in the local header and in the directory
    for signature, at in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = data.index(signature) + at
        data[start:start + 4] = (10).to_bytes(4, "little")
    with pytest.raises(UploadRefused):
        unpack(io.BytesIO(bytes(data)), folder)
    assert all(path.stat().st_size <= 100 for path in folder.rglob("*") if path.is_file())


def test_a_file_in_the_place_of_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(UploadRefused, match="cannot be unpacked"):
        unpack(tar_with((member("a"), b"1"), (member("a/b"), b"1")), folder)


@pytest.mark.parametrize("data", [b"", b"text", b"\x1f\x8b", b"\x1f\x8b\x08junkjunk", b"PK\x03\x04",
                                  gzip.compress(b"no tar at all" * 100, mtime=0)])
def test_what_is_no_archive_is_refused(folder: Path, data: bytes) -> None:
    with pytest.raises(UploadRefused):
        unpack(io.BytesIO(data), folder)
