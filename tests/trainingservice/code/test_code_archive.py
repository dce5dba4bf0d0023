"""The code folder as an archive."""

import errno
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainingservice.code import code_archive
from trainingservice.code.code_archive import MAX_BYTES, MAX_FILES, CodeRefused, CodeTooLarge, code_entries, pack_code
from trainingservice.files import unlinked_paths


def write(root: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def names(root: Path) -> list[str]:
    return [entry.name for entry in code_entries(root)]


def unpack(archive: Path, target: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extraction_filter = lambda member, path: member  # Python 3.11.2 has no such argument
        tar.extractall(target)
    return target


@pytest.fixture
def code(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def test_a_round_trip_keeps_bytes_execute_bits_empty_folders_and_strange_names(code, tmp_path):
    write(code, "train.py", content=b"print('\xc3\xa4')\n\x00\xff")
    write(code, "empty/", "a b/ünï côdé.txt", "run.sh", ".nniignore")
    (code / "run.sh").chmod(0o700)
    packed = pack_code(code, tmp_path / "out")
    there = unpack(packed.path, tmp_path / "there")
    assert (there / "train.py").read_bytes() == b"print('\xc3\xa4')\n\x00\xff"
    assert (there / "empty").is_dir()
    assert (there / "a b" / "ünï côdé.txt").read_bytes() == b"x"
    assert (there / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (there / "train.py").stat().st_mode & 0o777 == 0o644
    assert (packed.file_count, packed.content_bytes) == (4, 14 + 3)
    assert packed.size == packed.path.stat().st_size
    assert packed.path.name == packed.sha256 + ".tar.gz"


def test_the_same_content_gives_the_same_bytes_whoever_wrote_it_and_when(code, tmp_path):
    write(code, "b.py", "a/x.py", "a.py")
    first = pack_code(code, tmp_path / "one")
    copy = tmp_path / "copy"
    write(copy, "a.py", "b.py", "a/x.py")
    os.utime(copy / "a.py", (1, 1))
    (copy / "b.py").chmod(0o600)
    second = pack_code(copy, tmp_path / "two")
    assert first.sha256 == second.sha256
    assert first.path.read_bytes() == second.path.read_bytes()


def test_nothing_is_left_beside_the_archive(code, tmp_path):
    write(code, "a.py")
    packed = pack_code(code, tmp_path / "out")
    pack_code(code, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [packed.path]


def test_ignored_files_are_left_out_and_the_ignore_file_is_shipped(code):
    write(code, "train.py", "data/big.bin", "runs/1/log", "keep.log", "x.log", "deep/y.log")
    (code / ".nniignore").write_text("# comments\n\n/data/\nruns\n*.log\n!keep.log\n")
    assert names(code) == [".nniignore", "deep", "keep.log", "train.py"]


def test_patterns_of_a_nested_ignore_file_are_relative_to_its_folder(code):
    write(code, "out/a", "lib/out/a", "lib/b.tmp", "b.tmp", "lib/sub/c.tmp")
    (code / "lib" / ".nniignore").write_text("/out\n*.tmp\n")
    (code / "lib" / "sub" / ".nniignore").write_text("!c.tmp\n")
    assert names(code) == ["b.tmp", "lib", "lib/.nniignore", "lib/sub", "lib/sub/.nniignore", "lib/sub/c.tmp", "out",
                           "out/a"]


def test_a_folder_that_is_ignored_leaves_no_empty_folder_behind(code):
    write(code, "build/x", "train.py")
    (code / ".nniignore").write_text("build/\n")
    assert "build" not in names(code)


PATTERNS = st.sampled_from([
    "a", "b", "a/", "/a", "/a/", "a/b", "a/*", "a/**", "**/b", "*/b", "*", "*/", "!a", "!a/", "!b", "!*/", "!a/b",
    "!/a", "a/**/b", "[ab]", "?", "!a/**", "c*", "!*.x", "*.x", "# a", "", " ", "!", "\\!a", "a ", "**", "/*", "b/c",
    "!b/c/"]) | st.lists(st.sampled_from([
        "a", "b", "c", "*", "**", "**/", "/**", "?", "/", "[ab]", "[!a]", "[^b]", "[a-c]", "[c-a]", "[]a]", "[a-]", "[",
        "[[:alpha:]]", "[[:nothing:]]", "[[:digit:]x]", "[\\]]", "[a\\-c]", "\\", "\\*", "!", "#", " ", "\t", "ä", ".",
        "]", "-", "\r"]),
    min_size=1, max_size=6).map("".join)
TREE = ["a/a/a.x", "a/b/c", "a/c.x", "b/a/b/c", "b/c/a", "b/b.x", "c/a", "c/b/a", "!a", "ab", "a.x", "a/ä", "ä", "]",
        "b/[a]", "c/a b", "*", "b/-", "a1", "a/\\", " a"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(root=st.lists(PATTERNS, max_size=6), nested=st.lists(PATTERNS, max_size=4))
def test_ignoring_works_exactly_as_in_git(root, nested, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tree")
    try:
        write(folder, *TREE)
        for name, patterns in (("", root), ("a", nested)):
            for ignore_file in (".nniignore", ".gitignore"):
                (folder / name / ignore_file).write_text("\n".join(patterns) + "\n")
        environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "init", "-q", "."], cwd=folder, env=environment, check=True)
        listed = subprocess.run(["git", "ls-files", "-z", "--others", "--exclude-standard"], cwd=folder, check=True,
                                env=environment, capture_output=True, text=True).stdout.split("\0")
        shutil.rmtree(folder / ".git")
        ours = {entry.name for entry in code_entries(folder) if not entry.is_folder}
        ignore_files = {".nniignore", ".gitignore", "a/.nniignore", "a/.gitignore"}
        assert ours - ignore_files == set(filter(None, listed)) - ignore_files
    finally:
        shutil.rmtree(folder)


def test_a_pattern_that_was_slow_is_matched_in_one_pass(code):
    """With a regular expression each of these takes longer than the test may."""
    write(code, "a" * 60, "a/" * 40 + "c", "train.py")
    (code / ".nniignore").write_text("*a*a*a*a*a*a*a*a*a*a*a*a*b\n" + "**/a/" * 30 + "b\n" + "*/**/" * 30 + "b\n"
                                     + "[a-z]*" * 30 + "1\n" + "?*" * 30 + "b\n")
    program = ("import sys; from pathlib import Path; from trainingservice.code.code_archive import code_entries\n"
               "print(sum(not entry.is_folder for entry in code_entries(Path(sys.argv[1]))))")
    in_time = subprocess.run([sys.executable, "-c", program, str(code)], capture_output=True, text=True, timeout=90)
    assert (in_time.stdout, in_time.stderr) == ("4\n", "")


def test_names_that_are_no_text_are_compared_byte_by_byte_as_git_does(code):
    for name in (b"\xff.log", b"\xff.txt", b"\xe4\xff"):
        (Path(os.fsdecode(os.fsencode(code) + b"/" + name))).write_bytes(b"")
    (code / ".nniignore").write_bytes(b"\xff.l*\n\xe4?\n")
    assert names(code) == [".nniignore", os.fsdecode(b"\xff.txt")]


def test_a_line_that_git_skips_is_skipped_and_the_others_count(code):
    write(code, "a.log", "b.py")
    (code / ".nniignore").write_text("[z-a]\n[\n*.log\nend\\\n")
    assert names(code) == [".nniignore", "b.py"]


def test_more_rules_than_are_compared_with_each_name_are_refused_by_the_files_name(code):
    write(code, "a/b.py")
    (code / ".nniignore").write_text("x\n" * 900)
    (code / "a" / ".nniignore").write_text("y\n" * 100)
    assert "a/b.py" in names(code)
    (code / "a" / ".nniignore").write_text("y\n" * 101)
    with pytest.raises(CodeRefused, match=r"/a/.nniignore is too large: at most 1000 rules"):
        code_entries(code)
    (code / ".nniignore").write_text("# " + "x" * 64 * 1024)
    with pytest.raises(CodeRefused, match="at most 1000 rules in 64 KB"):
        code_entries(code)


def test_a_link_inside_the_folder_stays_a_link(code, tmp_path):
    write(code, "sub/real.py")
    (code / "link.py").symlink_to("sub/real.py")
    (code / "sub" / "up.py").symlink_to("../link.py")
    (code / "absolute").symlink_to(code / "sub")
    there = unpack(pack_code(code, tmp_path / "out").path, tmp_path / "there")
    assert os.readlink(there / "link.py") == "sub/real.py"
    assert os.readlink(there / "sub" / "up.py") == "../link.py"
    assert os.readlink(there / "absolute") == "sub"
    assert (there / "sub" / "up.py").read_bytes() == b"x"


def test_a_link_that_leads_out_of_the_folder_is_refused_by_name_and_nothing_of_it_is_packed(code, tmp_path):
    write(tmp_path / "keys", "secret_key", content=b"the server's own")
    (code / "model").symlink_to(tmp_path / "keys")
    with pytest.raises(CodeRefused, match=r"link \S*/model points out of the code folder, to \S*/keys.*\.nniignore"):
        pack_code(code, tmp_path / "out")
    (code / "model").unlink()
    (code / "key.txt").symlink_to("../keys/secret_key")
    with pytest.raises(CodeRefused, match="key.txt points out"):
        pack_code(code, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))


def test_nor_does_a_link_lead_out_by_way_of_another_link_or_by_a_detour(code, tmp_path):
    write(tmp_path / "elsewhere", "a.csv")
    write(code, "sub/b.csv")
    (code / "data").symlink_to(tmp_path / "elsewhere")
    (code / ".nniignore").write_text("/data/\n")
    (code / "a.csv").symlink_to("data/a.csv")
    with pytest.raises(CodeRefused, match="a.csv points out"):
        code_entries(code)
    (code / "a.csv").unlink()
    (code / "data").unlink()
    (code / "again").symlink_to(f"../{code.name}/sub")  # out of the folder and back into it
    assert [entry.link for entry in code_entries(code) if entry.link] == ["sub"]


def test_an_ignore_file_that_is_a_link_must_lie_in_the_folder_too(code, tmp_path):
    (tmp_path / "patterns").write_text("*.log\n")
    write(code, "rules", "x.log", content=b"*.log\n")
    (code / ".nniignore").symlink_to(tmp_path / "patterns")
    with pytest.raises(CodeRefused, match="nniignore points out"):
        code_entries(code)
    (code / ".nniignore").unlink()
    (code / ".nniignore").symlink_to("rules")
    assert names(code) == [".nniignore", "rules"]


def test_who_takes_no_links_gets_what_links_inside_lead_to_and_nothing_from_outside(code, tmp_path):
    write(tmp_path / "elsewhere", "a.csv")
    write(code, "sub/real.py")
    (code / "link.py").symlink_to("sub/real.py")
    assert [entry.name for entry in code_entries(code, keep_links=False)] == ["link.py", "sub", "sub/real.py"]
    (code / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CodeRefused, match="data points out"):
        code_entries(code, keep_links=False)


def test_a_folder_that_becomes_a_link_after_it_was_checked_is_not_packed(code, tmp_path):
    write(tmp_path / "keys", "secret_key")
    write(code, "sub/a.py")
    checked = (code / "sub").resolve()
    shutil.rmtree(code / "sub")
    (code / "sub").symlink_to(tmp_path / "keys")
    with pytest.raises(CodeRefused, match="put in the place of a folder"):
        pack_code(checked, tmp_path / "out")


def test_what_becomes_a_link_between_counting_and_packing_is_not_read(code, tmp_path):
    write(tmp_path / "keys", "a.py", content=b"the server's own")
    write(code, "sub/a.py", "b.py")
    entries = code_entries(code)
    shutil.rmtree(code / "sub")
    (code / "sub").symlink_to(tmp_path / "keys")
    with pytest.raises(CodeRefused, match=r"sub/a\.py cannot be packed"):
        code_archive.write_archive(entries, io.BytesIO())
    entries = [entry for entry in entries if entry.name == "b.py"]
    (code / "b.py").unlink()
    (code / "b.py").symlink_to(tmp_path / "keys" / "a.py")
    with pytest.raises(CodeRefused, match=r"b\.py cannot be packed"):
        code_archive.write_archive(entries, io.BytesIO())
    (code / "b.py").unlink()
    os.mkfifo(code / "b.py")  # opening one would wait for whoever writes to it
    with pytest.raises(CodeRefused, match=r"b\.py cannot be packed: it is not a plain file"):
        code_archive.write_archive(entries, io.BytesIO())


def test_a_folder_that_is_swapped_for_a_link_again_and_again_never_gives_what_is_behind_the_link(code, tmp_path):
    write(tmp_path / "keys", "a.py", content=b"the server's own")
    write(code, "sub/a.py", content=b"mine")
    (tmp_path / "link").symlink_to(tmp_path / "keys")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            (code / "sub").rename(tmp_path / "aside")
            (tmp_path / "link").rename(code / "sub")
            (code / "sub").rename(tmp_path / "link")
            (tmp_path / "aside").rename(code / "sub")

    swapping = threading.Thread(target=swap)
    swapping.start()
    packed = refused = 0
    try:
        began = time.monotonic()  # a busy machine may do one of the two seldom
        while (packed < 20 or refused < 20) and time.monotonic() - began < (20 if packed and refused else 120):
            try:
                archive = pack_code(code, tmp_path / "out").path
            except CodeRefused:
                refused += 1
                continue
            packed += 1
            with tarfile.open(archive) as tar:
                for member in tar.getmembers():
                    assert not member.isfile() or tar.extractfile(member).read() == b"mine"
    finally:
        over.set()
        swapping.join()
    assert packed
    assert refused


def test_folders_beyond_a_bearable_depth_are_refused(code):
    folder = code
    for _ in range(code_archive.DEEPEST + 2):
        folder /= "d"
        folder.mkdir()
    with pytest.raises(CodeRefused, match="levels deep"):
        code_entries(code)


def test_a_linked_data_folder_can_be_ignored_like_a_folder(code, tmp_path):
    write(tmp_path / "elsewhere", "a.csv")
    (code / "data").symlink_to(tmp_path / "elsewhere")
    (code / ".nniignore").write_text("data/\n")
    assert names(code) == [".nniignore"]


def test_a_link_to_nothing_is_refused_by_name_unless_it_is_ignored(code):
    (code / "broken").symlink_to("no-such-file")
    with pytest.raises(CodeRefused, match=r"broken points to no-such-file, which does not exist.*\.nniignore"):
        code_entries(code)
    (code / ".nniignore").write_text("broken\n")
    assert names(code) == [".nniignore"]


def test_a_link_that_leads_in_a_circle_is_refused_where_links_are_followed(code):
    write(code, "sub/a.csv")
    (code / "sub" / "again").symlink_to(code / "sub")
    with pytest.raises(CodeRefused, match="points back to"):
        code_entries(code, keep_links=False)


def test_a_link_to_a_folder_it_lies_in_is_a_link_like_others(code):
    write(code, "sub/a.py")
    (code / "sub" / "top").symlink_to("..")
    assert [entry.link for entry in code_entries(code) if entry.link] == [".."]


def test_pipes_and_sockets_are_left_out(code, caplog):
    os.mkfifo(code / "pipe")
    write(code, "a.py")
    assert names(code) == ["a.py"]
    assert "pipe" in caplog.text


def test_too_many_files_are_refused_with_counts_largest_folders_and_advice(code):
    write(code, *(f"data/{index}" for index in range(12)), *(f"venv/{index}" for index in range(5)), "train.py")
    with pytest.raises(CodeTooLarge) as caught:
        code_entries(code, max_files=10)
    text = str(caught.value)
    assert "18 files" in text
    assert "at most 10 files" in text
    assert text.index("data/ (12 files") < text.index("venv/ (5 files")
    assert "/data/ /venv/" in text
    assert ".nniignore" in text
    (code / ".nniignore").write_text("/data/\n")
    assert len(code_entries(code, max_files=10)) == 8


def test_too_many_bytes_are_refused_and_ignoring_helps(code, tmp_path):
    write(code, "model/weights.bin", content=bytes(5000))
    write(code, "train.py")
    with pytest.raises(CodeTooLarge, match=r"4\.9 KB together; .*1\.0 KB are shipped.*model/ \(1 files"):
        pack_code(code, tmp_path / "out", max_bytes=1024)
    assert not (tmp_path / "out").exists()
    (code / ".nniignore").write_text("*.bin\n")
    assert pack_code(code, tmp_path / "out", max_bytes=1024).file_count == 2


def test_folders_do_not_count_as_files(code):
    write(code, *(f"folder{index}/" for index in range(20)), "a.py")
    assert len(code_entries(code, max_files=1)) == 21


def test_a_missing_folder_and_a_file_are_refused(code, tmp_path):
    with pytest.raises(CodeRefused, match="does not exist"):
        code_entries(tmp_path / "nowhere")
    write(code, "a.py")
    with pytest.raises(CodeRefused, match="is not a folder"):
        code_entries(code / "a.py")


def test_an_unreadable_file_is_refused_by_name(code, tmp_path, monkeypatch):
    write(code, "secret")

    def refuse(path, *arguments):  # rights do not stop the superuser, as whom these tests may run
        if path.name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return unlinked_paths.open_file(path, *arguments)

    monkeypatch.setattr(code_archive, "open_file", refuse)
    with pytest.raises(CodeRefused, match="secret cannot be packed: Permission denied"):
        pack_code(code, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


CHARACTERS = st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",))
NAMES = st.text(CHARACTERS, min_size=1, max_size=12).filter(lambda name: name not in {".", "..", ".nniignore"})


@given(files=st.dictionaries(st.tuples(NAMES, NAMES), st.tuples(st.binary(max_size=300), st.booleans()), max_size=5))
def test_any_content_under_any_name_comes_out_as_it_went_in(files, tmp_path_factory):
    root = tmp_path_factory.mktemp("any")
    try:
        code = root / "code"
        code.mkdir()
        for (folder, name), (content, executable) in files.items():
            (code / folder).mkdir(exist_ok=True)
            (code / folder / name).write_bytes(content)
            (code / folder / name).chmod(0o755 if executable else 0o644)
        there = unpack(pack_code(code, root / "out").path, root / "there")
        seen = {tuple(path.relative_to(there).parts): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
                for path in there.rglob("*") if path.is_file()}
        assert seen == files
    finally:
        shutil.rmtree(root)


def test_the_limits_are_those_of_nni() -> None:
    assert (MAX_FILES, MAX_BYTES) == (2000, 300 * 1024 * 1024)
