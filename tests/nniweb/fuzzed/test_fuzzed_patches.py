"""Patches as no program writes them: each is refused with a sentence, or is a variant that its own diff makes again."""

from __future__ import annotations

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from nniweb.experiments.variants.base_code import FILE, BaseCode, BaseFile
from nniweb.experiments.variants.changes import GivenVariant, Permission, changed_files, read_variant
from nniweb.experiments.variants.paths import PermittedPaths, path_problem
from nniweb.experiments.variants.refused import VariantRefused
from nniweb.experiments.variants.shown_diff import diff_text, shown_files
from trainingservice.variants.code_variant import VariantContent

TEXTS = {"a.py": "one\ntwo\nthree\n", "conf/b.yml": "one", "c": ""}
PERMISSION = Permission(PermittedPaths(["*"]), 10_000)

names = st.sampled_from(["a.py", "a/a.py", "b/a.py", "/dev/null", "b/new", '"b/\\303\\251"', "b/../x", "a/conf/b.yml",
                         "c"])
numbers = st.integers(0, 5)
headers = st.one_of(
    st.builds("--- {}\n+++ {}\n".format, names, names),
    st.builds("diff --git {} {}\n".format, names, names),
    st.sampled_from(["new file mode 100644\n", "deleted file mode 100644\n", "old mode 100644\nnew mode 100755\n",
                     "new file mode 120000\n", "rename from a.py\nrename to new\n", "copy from a.py\n", "\n",
                     "junk\n"]))
hunks = st.builds("@@ -{},{} +{},{} @@\n".format, *[numbers] * 4)
lines = st.builds("{}{}\n".format, st.sampled_from([" ", "+", "-", "", "\\ "]),
                  st.sampled_from(["one", "two", "three", "", "\r", "No newline at end of file", "é", "\t@@"]))
patches = st.lists(st.one_of(headers, hunks, lines, st.text(max_size=5)), max_size=12).map("".join)


@cache
def base() -> BaseCode:
    return BaseCode("0" * 64, {**dict.fromkeys(TEXTS, FILE), "conf": "folder"},
                    {path: BaseFile(text.encode(), False) for path, text in TEXTS.items()})


def variant_of(given_variant: GivenVariant) -> VariantContent | None:
    """None: it was refused with a sentence."""
    message = "."
    try:
        return changed_files(read_variant(given_variant, PERMISSION), base(), PERMISSION)
    except VariantRefused as refused:
        message = str(refused)
    assert message.endswith(".")
    return None


@given(patches)
def test_no_patch_is_more_than_refused(patch: str) -> None:
    found = variant_of(GivenVariant(patch))
    if found is not None:
        assert all(not path_problem(one.path) for one in found.files)
        assert variant_of(GivenVariant(diff_text(shown_files(found.files)))) == found


@given(st.dictionaries(st.one_of(st.sampled_from(sorted(TEXTS)), st.text(max_size=8)),
                       st.one_of(st.none(), st.text(max_size=20), lines), max_size=4))
def test_no_set_of_files_is_more_than_refused(files: dict[str, str | None]) -> None:
    found = variant_of(GivenVariant(files=tuple(files.items())))
    if found is not None:
        assert all(not path_problem(one.path) for one in found.files)
        assert variant_of(GivenVariant(diff_text(shown_files(found.files)))) == found
