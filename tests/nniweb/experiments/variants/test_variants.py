"""What variants come to: whole files, the same for a patch and for the files that it makes."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from nniweb.experiments.variants.shown_diff import between, diff_text, shown_files
from tests.nniweb.experiments.variants.conftest import Vary
from trainingservice.code.code_archive import CodeArchive
from trainingservice.variants.code_variant import ChangedFile, read_stored, stored_form
from trialkeeper.code_folder import extract_archive

PATCH = "--- a/train.py\n+++ b/train.py\n@@ -1,3 +1,3 @@\n import model\n-lr = 0.1\n+lr = 0.2\n print(lr)\n"


def texts(files: tuple[ChangedFile, ...]) -> dict[str, str | None]:
    return {one.path: one.text for one in files}


def test_a_patch_and_the_files_that_it_makes_are_one_variant(vary: Vary) -> None:
    by_patch, by_files = vary(PATCH), vary(files={"train.py": "import model\nlr = 0.2\nprint(lr)\n"})
    assert by_patch == by_files
    assert by_patch.sha256 == by_files.sha256
    assert by_patch.size == len("import model\nlr = 0.2\nprint(lr)\n")
    assert read_stored(stored_form(by_patch)) == by_patch


@pytest.mark.parametrize("patch", [
    PATCH.rstrip("\n"), PATCH.replace("a/train", "train").replace("b/train", "train"),
    PATCH.replace("-1,3 +1,3", "-40,3 +41,3"), f"diff --git a/train.py b/train.py\nindex 12ab..34cd 100644\n{PATCH}",
    "From 12ab Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: [PATCH] faster\n\n---\n train.py | 2 +-\n\n"
    f"{PATCH}-- \n2.39\n",
    PATCH.replace("--- a/train.py", "--- a/train.py\t2026-01-01 00:00:00"),
    PATCH.replace("a/train", "i/train").replace("b/train", "w/train").join(
        ["diff --git i/train.py w/train.py\n", ""]),
])
def test_patches_of_different_programs_are_understood(vary: Vary, patch: str) -> None:
    assert texts(vary(patch).files) == {"train.py": "import model\nlr = 0.2\nprint(lr)\n"}


def test_files_are_added_removed_renamed_copied_and_made_executable(vary: Vary) -> None:
    found = vary(
        "diff --git a/new/x.py b/new/x.py\nnew file mode 100755\n--- /dev/null\n+++ b/new/x.py\n@@ -0,0 +1 @@\n+x\n"
        "diff --git a/conf/a.yml b/conf/a.yml\ndeleted file mode 100644\n--- a/conf/a.yml\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-x: 1\n\\ No newline at end of file\n"
        "diff --git a/train.py b/other.py\nsimilarity index 90%\nrename from train.py\nrename to other.py\n"
        "--- a/train.py\n+++ b/other.py\n@@ -2 +2 @@\n-lr = 0.1\n+lr = 0.3\n"
        "diff --git a/conf/data.yml b/conf/more.yml\nsimilarity index 100%\ncopy from conf/data.yml\n"
        "copy to conf/more.yml\n"
        "diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 100644\n"
        'diff --git "a/d\\303\\251j\\303\\240 vu.py" "b/d\\303\\251j\\303\\240 vu.py"\n'
        '--- "a/d\\303\\251j\\303\\240 vu.py"\n+++ "b/d\\303\\251j\\303\\240 vu.py"\n@@ -1 +1 @@\n-old\n+new\n')
    assert [(one.path, one.text, one.executable) for one in found.files] == [
        ("conf/a.yml", None, False), ("conf/more.yml", "secret: 1\n", False), ("déjà vu.py", "new\n", False),
        ("new/x.py", "x\n", True), ("other.py", "import model\nlr = 0.3\nprint(lr)\n", False),
        ("run.sh", "#!/bin/sh\n", False), ("train.py", None, False)]


def test_lines_keep_their_ends(vary: Vary) -> None:
    windows = "--- a/windows.py\n+++ b/windows.py\n@@ -1,2 +1,2 @@\n a = 1\r\n-b = 2\r\n+b = 3\r\n"
    assert texts(vary(windows).files) == {"windows.py": "a = 1\r\nb = 3\r\n"}
    ended = "--- a/conf/a.yml\n+++ b/conf/a.yml\n@@ -1 +1,2 @@\n-x: 1\n\\ No newline at end of file\n+x: 1\n+y: 2\n"
    assert texts(vary(ended).files) == {"conf/a.yml": "x: 1\ny: 2\n"}


def test_the_shown_diff_is_a_patch_that_makes_the_same_variant(vary: Vary, archive: CodeArchive, tmp_path: Path
                                                               ) -> None:
    numbers = random.Random(3)
    layers = [f"layers = {numbers.randrange(3)}\n" for _ in range(40)]
    given = {"model.py": "".join(layers), "train.py": "lr = 0.1\nprint(lr)", "conf/a.yml": None, "new/x.py": "x\n\n",
             "windows.py": "a = 1\r\nb = 4\n"}
    made = vary(files=given)
    text = diff_text(shown_files(made.files))
    assert vary(text) == made
    # and git has the same opinion
    extract_archive(str(archive.path), str(tmp_path / "code"))
    subprocess.run(["git", "apply", "-"], input=text.encode(), cwd=tmp_path / "code", check=True)
    assert {name: (tmp_path / "code" / name).read_bytes().decode() if (tmp_path / "code" / name).exists() else None
            for name in given} == given


def test_the_difference_of_two_variants_leaves_out_what_both_have(vary: Vary) -> None:
    first = vary(files={"train.py": "one\n", "model.py": "same\n", "new.py": "x\n"})
    second = vary(files={"train.py": "two\n", "model.py": "same\n", "conf/a.yml": None})
    assert [(one.path, one.before, one.text) for one in between(first, second)] == [
        ("conf/a.yml", "x: 1", None), ("new.py", "x\n", None), ("train.py", "one\n", "two\n")]
    assert between(None, first) == list(first.files)
    assert between(first, first) == []


def test_a_diff_of_texts_that_are_hard_to_compare_is_soon_there(vary: Vary) -> None:
    long = "".join(f"{number % 7}\n" for number in range(30_000))
    shown = shown_files(vary(files={"model.py": long, **{f"{number}.py": long[:900] for number in range(60)}},
                             most_bytes=256 * 1024).files)
    changed = next(one for one in shown if one.file.path == "model.py")
    assert (changed.added, changed.removed) == (30_000, 6)
