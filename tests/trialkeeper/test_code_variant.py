"""A trial with a variant of the code runs the changed files in its own copy, and no copy is made of a wrong one."""

from __future__ import annotations

import base64
import json
import os
import zlib
from hashlib import sha256
from pathlib import Path

import pytest

from trainingservice.code.code_archive import CodeArchive, pack_code
from trainingservice.variants.code_variant import ChangedFile, variant_content, variant_document, write_variant
from trialkeeper import contract
from trialkeeper.child_process import CannotStart
from trialkeeper.code_folder import extract_archive


@pytest.fixture
def archive(tmp_path: Path) -> CodeArchive:
    code = tmp_path / "source"
    (code / "conf").mkdir(parents=True)
    (code / "trial.py").write_text("print('as it is')\n")
    (code / "conf" / "old.yml").write_text("x: 1\n")
    (code / "link").symlink_to("conf")
    return pack_code(code.resolve(), tmp_path / "archives")


def document(archive: CodeArchive, folder: Path, *files: ChangedFile) -> contract.VariantDocument:
    return variant_document(write_variant(variant_content(archive.sha256, files), folder))


def packed(files: object) -> contract.VariantDocument:
    """What no server of ours makes."""
    text = json.dumps({"base": "", "files": files}).encode()
    return {"sha256": sha256(text).hexdigest(), "packed": base64.b64encode(zlib.compress(text)).decode()}


def test_files_are_changed_added_and_removed_in_the_copy(archive: CodeArchive, tmp_path: Path) -> None:
    variant = document(archive, tmp_path, ChangedFile("trial.py", "print('changed ☃')\n", "print('as it is')\n"),
                       ChangedFile("deep/er/new.sh", "#!/bin/sh\n", executable=True),
                       ChangedFile("conf/old.yml", None, "x: 1\n"))
    copy = tmp_path / "copy"
    extract_archive(str(archive.path), str(copy), variant=variant)
    assert (copy / "trial.py").read_text() == "print('changed ☃')\n"
    assert os.access(copy / "deep" / "er" / "new.sh", os.X_OK)
    assert not os.access(copy / "trial.py", os.X_OK)
    assert list((copy / "conf").iterdir()) == []
    extract_archive(str(archive.path), str(tmp_path / "next"))
    assert (tmp_path / "next" / "trial.py").read_text() == "print('as it is')\n"


def test_of_an_archive_with_parts_a_role_gets_the_changes_of_its_own(archive: CodeArchive, tmp_path: Path) -> None:
    variant = document(archive, tmp_path, ChangedFile("trial.py", "x"), ChangedFile("conf/new.yml", "y: 2\n"))
    extract_archive(str(archive.path), str(tmp_path / "copy"), "conf", variant)
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["new.yml", "old.yml"]


@pytest.mark.parametrize(("files", "problem"), [
    ({"../out": {"text": "x", "executable": False}}, "leaves the folder"),
    ({"/tmp/out": {"text": "x", "executable": False}}, "leaves the folder"),
    ({"link/new": {"text": "x", "executable": False}}, '"link" is no folder there'),
    ({"link": {"text": "x", "executable": False}}, '"link" is no plain file'),
    ({"trial.py/new": {"text": "x", "executable": False}}, '"trial.py" is no folder there'),
    ({"conf": None}, '"conf" is no plain file'), ({"gone": None}, "no \"gone\" to remove"),
])
def test_what_does_not_fit_the_code_leaves_no_copy(archive: CodeArchive, tmp_path: Path, files: object, problem: str
                                                   ) -> None:
    with pytest.raises(CannotStart, match=problem):
        extract_archive(str(archive.path), str(tmp_path / "copy"), variant=packed(files))
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("variant", "problem"), [
    ({**packed({}), "sha256": "0" * 64}, "its SHA-256 is not 000"), ({**packed({}), "packed": "!"}, "cannot be read"),
    (packed({"x": "y" * contract.MAX_VARIANT_BYTES}), "is longer than"),
    ({**packed({}), "packed": packed({})["packed"][:8]}, "cut off|cannot be read"),
])
def test_a_damaged_variant_or_a_bomb_leaves_no_copy(archive: CodeArchive, tmp_path: Path,
                                                    variant: contract.VariantDocument, problem: str) -> None:
    with pytest.raises(CannotStart, match=problem):
        extract_archive(str(archive.path), str(tmp_path / "copy"), variant=variant)
    assert not (tmp_path / "copy").exists()


def test_a_trial_that_would_run_in_the_shared_folder_is_not_started_with_a_variant(keeper, server, archive, tmp_path
                                                                                   ) -> None:
    folder = tmp_path / "source"
    assert keeper.run("cat trial.py", code={"folder": str(folder)},
                      variant=document(archive, tmp_path, ChangedFile("trial.py", "x"))) == 1
    assert server.ended["reason"] == contract.NOT_STARTED
    assert "no copy of the code" in server.ended["message"]
    assert (folder / "trial.py").read_text() == "print('as it is')\n"


def test_the_command_starts_when_the_variant_is_in_place(keeper, server, archive, tmp_path) -> None:
    code = {"sha256": archive.sha256, "archive": str(archive.path)}
    assert keeper.run("cat trial.py", code=code, variant=document(
        archive, tmp_path, ChangedFile("trial.py", "print('changed')\n"))) == 0
    assert server.output() == "print('changed')\n"
