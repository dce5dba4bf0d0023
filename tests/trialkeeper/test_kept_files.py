"""Which files of a trial are kept."""

import glob
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trialkeeper.kept_files import find_kept_files

FILES = ["a.txt", "b.pt", ".hidden", "a/a.txt", "a/b/c.pt", "a/b/.x", "b/a/b/a.txt", ".dot/a.txt", "a/.dot/b.pt",
         "[a]/b"]


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "run"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def kept(folder, *patterns, said=None):
    log = [].append if said is None else said.append
    return [file.name for file in find_kept_files(str(folder), str(folder / "output"), list(patterns), log)]


PARTS = st.sampled_from(["*", "**", "a", "b", "?", "*.txt", "*.pt", "[ab]", ".*", ".dot", "..", ".", "[[]a]", "a.txt",
                         "", "**a", "run"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(PARTS, min_size=1, max_size=5))
def test_files_are_found_as_the_standard_library_finds_them(folder, parts):
    pattern = "/".join(parts)
    paths = glob.iglob(os.path.join(glob.escape(str(folder)), pattern), recursive=True)
    found = {os.path.relpath(os.path.normpath(path), folder) for path in paths if os.path.isfile(path)}
    inside = sorted(name for name in found if name.split("/")[0] != "..")
    if not pattern.startswith("/"):
        assert kept(folder, pattern) == inside


def test_what_lies_outside_is_named_in_the_log_and_not_entered(folder, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("no")
    (folder / "a" / "leak.txt").symlink_to(tmp_path / "secret" / "key.txt")
    (folder / "a" / "way").symlink_to(tmp_path / "secret")
    said: list[str] = []
    assert kept(folder, "a/**/*.txt", "../secret/*", f"{tmp_path}/secret/key.txt", said=said) == ["a/a.txt"]
    assert [line.partition(":")[0] for line in said] == [
        f"the file {folder}/a/leak.txt is not kept", f"the folder {folder}/a/way is not looked into",
        f"the folder {folder}/.. is not looked into", "the folder / is not looked into"]


def test_a_file_that_links_reach_as_well_is_kept_once_under_its_own_name(folder):
    (folder / "0-first").symlink_to("a")
    (folder / "latest").symlink_to("a/b")
    assert kept(folder, "**/*.pt") == ["a/b/c.pt", "b.pt"]
    assert kept(folder, "latest/*") == ["latest/c.pt"]
    (folder / "by-link").symlink_to(".dot")
    assert kept(folder, "**/a.txt") == ["a.txt", "a/a.txt", "b/a/b/a.txt", "by-link/a.txt"]


def test_links_that_lead_in_circles_and_patterns_that_can_be_laid_in_many_ways_cost_no_more(folder):
    """The standard library's glob does not come to an end here within anybody's life."""
    for name in ("c", "d", "e"):
        (folder / name).symlink_to(".")
        (folder / "a" / name).symlink_to("..")
    (folder / ("a" * 60)).write_text("")
    deep = folder / "/".join("a" * 60)
    deep.mkdir(parents=True)
    (deep / "end").write_text("")
    patterns = ["**/" * 40 + "end", "**/*/" * 40 + "nothing", "*a*a*a*a*a*a*a*a*a*a*a*b",
                "**/a/" * 30 + "*/" * 20 + "end"]
    program = ("import sys; from trialkeeper.kept_files import find_kept_files\n"
               "print(len(find_kept_files(sys.argv[1], '/nowhere', sys.argv[2:], print)))")
    done = subprocess.run([sys.executable, "-c", program, str(folder), *patterns], capture_output=True, text=True,
                          timeout=90)
    assert (done.stdout, done.stderr) == ("1\n", "")
