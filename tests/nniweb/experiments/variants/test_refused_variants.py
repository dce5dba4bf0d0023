"""Variants of code come from programs that nobody watches: whatever is odd about one is refused, by its path."""

from __future__ import annotations

import pytest

from nniweb.experiments.variants.refused import VariantRefused
from tests.nniweb.experiments.variants.conftest import Vary
from tests.own_time import takes_at_most

NEW = "--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
GIT_NEW = "diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def refusal(vary: Vary, *given: object, **more: object) -> tuple[str, str]:
    with pytest.raises(VariantRefused) as refused:
        vary(*given, **more)
    return refused.value.field, str(refused.value)


@pytest.mark.parametrize(("path", "problem"), [
    ("/etc/passwd", "is absolute"), ("../out.py", 'has the part ".."'), ("conf/../../out.py", 'has the part ".."'),
    ("./train.py", 'has the part ".." or "."'), ("conf//a.yml", "between its slashes is empty"),
    ("conf/", "between its slashes is empty"), ("", "is no path"), ("conf\\a.yml", "has a backslash"),
    ("a\0b", "cannot be printed"), ("a\nb", "cannot be printed"), ("train\u202e.py", "cannot be printed"),
    ("a\ud800.py", "cannot be printed"), (".git/hooks/pre-commit", "lies in a .git folder"),
    ("sub/.GIT/config", "lies in a .git folder"), ("x" * 256, "is longer than 255 bytes"),
    ("d/" * 20 + "x.py", "more than 20 folders deep"), ("Train.py", "differs from train.py in upper and lower case"),
    ("CONF/new.yml", "differs from conf in upper and lower case"), ("train.py/x.py", "leads through train.py"),
    ("linked/new.yml", "leads through linked, which is a link"), ("conf", "is a folder"), ("link.py", "is a link"),
    ("weights.bin", "is no text"), ("large.py", "is longer than 512 KB"),
])
def test_files_at_odd_paths_are_refused(vary: Vary, path: str, problem: str) -> None:
    field, message = refusal(vary, files={path: "x\n"})
    assert field == "files"
    assert problem in message
    assert path.isprintable() is False or path in message or len(path) > 200 or "\\" in path


@pytest.mark.parametrize("path", ["missing.py", "conf/missing.yml", "linked/a.yml", "link.py", "conf", "weights.bin"])
def test_only_plain_text_files_that_are_there_can_be_removed(vary: Vary, path: str) -> None:
    assert path in refusal(vary, files={path: None})[1]


@pytest.mark.parametrize(("patch", "problem"), [
    (NEW.format(path="/etc/cron.d/x"), "is absolute"),
    (NEW.format(path="../../x.py"), 'has the part ".."'),
    ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", 'has the part ".."'),
    (NEW.format(path="a\\b.py"), "has a backslash"),
    ('--- /dev/null\n+++ "b/a\\000b"\n@@ -0,0 +1 @@\n+x\n', "cannot be printed"),
    ('--- /dev/null\n+++ "b/a\\377b"\n@@ -0,0 +1 @@\n+x\n', "is no UTF-8"),
    (NEW.format(path=".git/config"), "lies in a .git folder"),
    (NEW.format(path="train.py"), "exists in the code already"),
    (NEW.format(path="TRAIN.py"), "differs from train.py in upper and lower case"),
    (NEW.format(path="linked/x.yml"), "is a link"),
    (GIT_NEW.format(path="x", mode="120000"), "is a symbolic link there (mode 120000)"),
    (GIT_NEW.format(path="x", mode="160000"), "is a submodule there"),
    (GIT_NEW.format(path="x", mode="104755"), "gets the mode"),
    ("diff --git a/run.sh b/run.sh\nold mode 100755\nnew mode 104755\n", "gets the mode"),
    ("diff --git a/train.py b/train.py\nold mode 100644\nnew mode 120000\n", "is a symbolic link"),
    ("diff --git a/weights.bin b/weights.bin\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n", "binary patch"),
    ("diff --git a/weights.bin b/weights.bin\nBinary files a/weights.bin and b/weights.bin differ\n", "binary patch"),
    ("diff --git a/train.py b/model.py\nsimilarity index 100%\nrename from train.py\nrename to model.py\n",
     "model.py\" exists in the code already"),
    ("diff --git a/link.py b/x.py\nsimilarity index 100%\nrename from link.py\nrename to x.py\n", "is a link"),
    ("diff --git a/train.py b/train.py\ndeleted file mode 100644\n--- a/train.py\n+++ /dev/null\n@@ -1 +0,0 @@\n"
     "-import model\n", "has more lines in the code"),
    ("--- a/none.py\n+++ b/none.py\n@@ -1 +1 @@\n-a\n+b\n", "none.py\" does not exist in the code"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import nothing\n+b\n",
     'hunk 1 (@@ -1,1 +1,1 @@) expects: line 1 should be "import nothing\\n", and it is "import model\\n"'),
    ("--- a/model.py\n+++ b/model.py\n@@ -40 +40 @@\n-layers = 1\n+layers = 2\n", "several places have its lines"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import model\n+b\n--- a/train.py\n+++ b/train.py\n@@ -2 +2 @@\n"
     "-lr = 0.1\n+c\n", "is in the patch twice"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1,9 +1 @@\n-import model\n+b\n", "cannot be read"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import model\n+b\n+c\n", "belongs to no hunk"),
    ("@@ -1 +1 @@\n-import model\n+b\n", "cannot be read"),
    ("+++ b/train.py\n@@ -1 +1 @@\n-import model\n+b\n", "cannot be read"),
    (f"--- a/train.py\n+++ b/train.py\n@@ -{'9' * 5000} +1 @@\n-import model\n+b\n", "no line number"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import model\n+\0\n", "NUL"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import model\n+\x1b[31m\n", "would have the character 0x1b"),
    ("--- /dev/null\n+++ /dev/null\n@@ -0,0 +1 @@\n+x\n", "/dev/null before and after"),
    ("nothing of a patch", "changes no file"), ("", "changes no file"),
    ("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import model\n+import model\n", "changes nothing"),
])
def test_odd_patches_are_refused(vary: Vary, patch: str, problem: str) -> None:
    field, message = refusal(vary, patch)
    assert field == "patch"
    assert problem in message


@pytest.mark.parametrize(("patch", "problem"), [
    ("x" * 600_000, "longer than 512.0 KB"),
    ("\n" * 60_000, "more than 50000 lines"),
    ("--- a/model.py\n+++ b/model.py\n" + "@@ -1 +1 @@\n-a\n+b\n" * 2500, "more than 2000 hunks"),
    ("".join(NEW.format(path=f"{number}.py") for number in range(101)), "more than 100 files"),
    ("diff --git a/" + " b/://" * 4000 + "\n", "longer than 640 characters"),
    ("--- a/a" + "/a" * 100_000 + "\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", "is longer than 255 bytes"),
])
def test_patches_that_would_take_long_are_refused_soon(vary: Vary, patch: str, problem: str) -> None:
    with takes_at_most(2):
        assert problem in refusal(vary, patch)[1]


@pytest.mark.parametrize(("files", "problem"), [
    ({f"{number}.py": "x" for number in range(101)}, "At most 100 files"), ({}, "at least one file"),
    ({"a.py": "x\0"}, "would have the character 0x00"), ({"a.py": "x\ud800"}, "half a character"),
    ({"a.py": "x", "A.py": "x"}, "in upper and lower case"), ({"a": "x", "a/b": "x"}, "which the variant makes as a"),
    ({"e\u0301.py": "x", "\xe9.py": "x"}, "only in how its letters are written in Unicode"),
    ({"de\u0301ja\u0300 vu.py": "x"}, "only in how its letters are written in Unicode"),
    ({"train.py": "import model\nlr = 0.1\nprint(lr)\n"}, "changes nothing"),
    ({f"long{number}.py": None for number in range(3)}, "have 1.1 MB together in the code"),
    ({"a.py": "x" * 40_000, "b.py": "x" * 40_000}, "have 78.1 KB together. codeVariants.maxBytes"),
])
def test_odd_sets_of_files_are_refused(vary: Vary, files: dict[str, str | None], problem: str) -> None:
    assert problem in refusal(vary, files=files)[1]


@pytest.mark.parametrize(("paths", "path", "is_permitted"), [
    (("*.py",), "train.py", True), (("*.py",), "deep/er.py", True), (("*.py",), "conf/a.yml", False),
    (("conf/**",), "conf/a.yml", True), (("conf/",), "conf/deep/new.yml", True), (("conf",), "train.py", False),
    (("/train.py",), "deep/train.py", False), (("conf/**", "!conf/data.yml"), "conf/data.yml", False),
    (("conf/**", "!conf/data.yml"), "conf/a.yml", True), (("*", "!conf/"), "conf/a.yml", False),
])
def test_only_named_paths_can_be_changed_added_and_removed(vary: Vary, paths: tuple[str, ...], path: str,
                                                           is_permitted: bool) -> None:
    if is_permitted:
        assert [one.path for one in vary(files={path: "new\n"}, paths=paths).files] == [path]
        return
    assert f"may not be changed: codeVariants.paths of this experiment permits {', '.join(paths)}." in refusal(
        vary, files={path: "new\n"}, paths=paths)[1]
    assert "may not be changed" in refusal(vary, files={path: None}, paths=paths)[1]


def test_a_rename_out_of_the_named_paths_is_refused(vary: Vary) -> None:
    rename = "diff --git a/train.py b/x.txt\nsimilarity index 100%\nrename from train.py\nrename to x.txt\n"
    assert '"x.txt" may not be changed' in refusal(vary, rename, paths=("*.py",))[1]
    back = "diff --git a/conf/a.yml b/a.py\nsimilarity index 100%\nrename from conf/a.yml\nrename to a.py\n"
    assert '"conf/a.yml" may not be changed' in refusal(vary, back, paths=("*.py",))[1]
