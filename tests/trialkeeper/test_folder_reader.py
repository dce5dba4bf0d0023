"""The reader of a folder that a trial writes to: it finds plain files, and nothing leads it out."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.files import output_folder
from trainingservice.files.output_folder import FolderElsewhere, FolderHere, NoSuchOutput
from trialkeeper import folder_reader


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A place that is trusted, with a trial's folder ``t/nni`` in it and a secret beside."""
    (tmp_path / "trusted" / "t" / "nni").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("the key of all secrets")
    return tmp_path


@pytest.fixture
def nni(place: Path) -> Path:
    return place / "trusted" / "t" / "nni"


def elsewhere(trusted: Path, folder: str) -> FolderElsewhere:
    """The same by a program, as on another machine."""
    def run(content: bytes) -> bytes:
        return subprocess.run(["/bin/sh", "-c", output_folder.python_command(sys.executable)], input=content,
                              stdout=subprocess.PIPE, check=True).stdout
    return FolderElsewhere(str(trusted), folder, run)


@pytest.fixture(params=["here", "elsewhere"])
def folder(request, place: Path):
    make = elsewhere if request.param == "elsewhere" else lambda trusted, name: FolderHere(str(trusted), name)
    return make(place / "trusted", "t/nni")


def test_files_are_listed_by_name_and_read_in_pieces(folder, nni) -> None:
    (nni / "sub" / "deep").mkdir(parents=True)
    (nni / "sub" / "deep" / "grün\n.bin").write_bytes(bytes(range(256)))
    (nni / "a").write_text("")
    os.utime(nni / "a", (1_700_000_000, 1_700_000_000.5))
    found = folder.list_files()
    assert [(file.name, file.size) for file in found.files] == [("a", 0), ("sub/deep/grün\n.bin", 256)]
    assert found.files[0].modified == 1_700_000_000.5
    assert (found.cut, found.left_out) == (False, 0)
    pieces = [folder.read("sub/deep/grün\n.bin", *part) for part in ((250,), (10, 2), (256,))]
    assert [piece.content for piece in pieces] == [bytes(range(250, 256)), bytes([10, 11]), b""]
    assert {(piece.size, piece.number) for piece in pieces} == {(256, (nni / "sub/deep/grün\n.bin").stat().st_ino)}


def test_links_pipes_sockets_and_names_that_are_no_text_are_counted_and_never_opened(folder, nni, place) -> None:
    (nni / "file link").symlink_to(place / "secret" / "key")
    (nni / "folder link").symlink_to(place / "secret")
    (nni / "inner link").symlink_to("plain")
    os.mkfifo(nni / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(nni / "socket"))
        Path(os.fsdecode(os.fsencode(nni) + b"/no\xfftext")).write_text("x")
        (nni / "plain").write_text("plain")
        found = folder.list_files()
    assert [file.name for file in found.files] == ["plain"]
    assert found.left_out == 6
    for name in ("file link", "folder link/key", "inner link", "pipe", "socket", "../../../secret/key", "./plain",
                 str(place / "secret" / "key"), "", "plain/x", "a\0b"):
        with pytest.raises(NoSuchOutput):
            folder.read(name, 0)


@pytest.mark.parametrize("part", ["t", "t/nni"])
def test_a_folder_on_the_way_that_is_a_link_is_not_entered(folder, place, part) -> None:
    real = place / "trusted" / part
    real.rename(place / "elsewhere")
    (place / "secret" / "nni").mkdir(exist_ok=True)
    real.symlink_to(place / "secret")
    with pytest.raises(NoSuchOutput, match="no output folder"):
        folder.list_files()
    with pytest.raises(NoSuchOutput):
        folder.read("key", 0)


def test_a_folder_that_is_replaced_by_a_link_again_and_again_never_gives_what_is_behind_the_link(place, nni) -> None:
    """The race between looking and opening: a trial swaps folder and link as fast as it can."""
    (nni / "sub").mkdir()
    (nni / "sub" / "key").write_text("mine")
    (nni / "link").symlink_to(place / "secret")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for source, target in (("sub", "kept"), ("link", "sub"), ("sub", "link"), ("kept", "sub")):
                os.rename(nni / source, nni / target)

    swapping = threading.Thread(target=swap)
    swapping.start()
    folder = FolderHere(str(place / "trusted"), "t/nni")
    seen: set[bytes] = set()
    try:
        for _ in range(1500):
            try:
                seen.add(folder.read("sub/key", 0).content)
            except NoSuchOutput:
                seen.add(b"")
            assert all("key" not in file.name or file.size == 4 for file in folder.list_files().files)
    finally:
        over.set()
        swapping.join()
    assert seen <= {b"mine", b""}


def test_a_folder_with_very_much_in_it_is_cut_and_says_so(nni, place, monkeypatch) -> None:
    for number in range(12):
        (nni / f"{number:02}").write_text("x")
    found = folder_reader.list_folder(str(place / "trusted"), "t/nni", most=5)
    assert (len(found.files), found.cut) == (5, True)
    monkeypatch.setattr(folder_reader, "MOST_ENTRIES", 3)
    found = folder_reader.list_folder(str(place / "trusted"), "t/nni")
    assert (len(found.files), found.cut) == (3, True)


def test_a_folder_that_is_too_deep_is_cut_and_says_so(nni, place) -> None:
    deep = nni
    for _ in range(folder_reader.DEEPEST + 3):
        deep = deep / "d"
        deep.mkdir()
    (deep / "file").write_text("x")
    (nni / "file").write_text("x")
    found = folder_reader.list_folder(str(place / "trusted"), "t/nni")
    assert ([file.name for file in found.files], found.cut) == (["file"], True)


def test_a_folder_that_is_not_there_is_a_sentence(folder, place) -> None:
    (place / "trusted" / "t" / "nni").rmdir()
    with pytest.raises(NoSuchOutput, match=r"has not started or its files were removed\.$"):
        folder.list_files()


def test_a_machine_that_answers_something_else_is_a_sentence(place) -> None:
    def prints(answer: bytes) -> FolderElsewhere:
        return FolderElsewhere("/", "x", lambda content: answer)
    for answer in (b"", b"Welcome!\n", b"[1]\n", json.dumps({}).encode()):
        with pytest.raises(TemporaryError, match="unexpected answer"):
            prints(answer).list_files()


def test_names_that_a_machine_makes_up_to_lead_elsewhere_are_left_out() -> None:
    names = ["plain", "../up", "/etc/passwd", "a//b", "a/./b", ""]
    told = json.dumps({"files": [[name, 1, 2.0] for name in names], "cut": False, "left_out": 1}).encode() + b"\n"
    found = FolderElsewhere("/", "x", lambda content: told).list_files()
    assert ([file.name for file in found.files], found.left_out) == (["plain"], 6)


def test_what_the_servers_user_may_not_read_says_who_can_change_that(place, nni) -> None:
    told = json.dumps({"errno": 13, "error": "Permission denied"}).encode() + b"\n"
    with pytest.raises(TemporaryError, match="keepFiles"):
        FolderElsewhere("/", "x", lambda content: told).read("model", 0)
