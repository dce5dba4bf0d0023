"""Cases: the code folder a trial finds itself in, and the command as shell text."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainingservice.base import TrainingService
from trainingservice.testing.bench import Bench
from trainingservice.testing.cases.fixtures import ConformanceFixtures, needs_this_machine
from trainingservice.trial_job_status import TrialJobStatus
from trainingservice.variants.code_variant import ChangedFile

LIST_MY_FOLDER = """
import hashlib, json, os
seen = {}
for folder, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.relpath(os.path.join(folder, name), ".")
        if os.path.islink(path):
            seen[path] = ["link", os.readlink(path)]
        elif os.path.isdir(path):
            seen[path] = ["folder"]
        else:
            with open(path, "rb") as stream:
                seen[path] = ["file", hashlib.sha256(stream.read()).hexdigest(), bool(os.stat(path).st_mode & 0o100)]
print(json.dumps(seen))
"""


def listing(root: Path) -> dict[str, list[Any]]:
    """The same listing, made on this side."""
    seen: dict[str, list[Any]] = {}
    for path in root.rglob("*"):
        if path.is_symlink():
            seen[str(path.relative_to(root))] = ["link", os.readlink(path)]
        elif path.is_dir():
            seen[str(path.relative_to(root))] = ["folder"]
        else:
            seen[str(path.relative_to(root))] = ["file", hashlib.sha256(path.read_bytes()).hexdigest(),
                                                 bool(path.stat().st_mode & 0o100)]
    return seen


def difficult_folder(root: Path) -> set[str]:
    """Make a folder with everything that is easily lost on the way. Returns what .nniignore leaves out."""
    for name, content in {
        "trial.py": LIST_MY_FOLDER.encode(), "bytes": bytes(range(256)) * 40, "empty file": b"",
        "with space/and ünïcode ☃.txt": "größe".encode(), ".hidden/settings": b"1", "run me.sh": b"#!/bin/sh\nexit 0\n",
        ".nniignore": b"*.log\n/data/\n!keep.log\n", "a.log": b"x", "keep.log": b"kept", "data/big.bin": b"x" * 1000,
        "deep/er/still/b.log": b"x", "deep/er/still/b.txt": b"y",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    (root / "run me.sh").chmod(0o755)
    (root / "empty folder" / "inner").mkdir(parents=True)
    (root / "link to file").symlink_to("bytes")
    (root / "deep" / "link to folder").symlink_to("../with space")
    return {"a.log", "data", "data/big.bin", "deep/er/still/b.log"}


class CodeCases(ConformanceFixtures):
    def test_the_working_directory_is_the_code_folder_and_nothing_else(self, bench: Bench,
                                                                       service: TrainingService) -> None:
        folder = bench.folder / "difficult code"
        folder.mkdir()
        ignored = difficult_folder(folder)
        form = bench.form(f"{bench.platform.python} trial.py", code=bench.packed(folder))
        expected = listing(folder)
        assert ignored < expected.keys()
        if not service.shares_code_folder:
            expected = {name: what for name, what in expected.items() if name not in ignored}
        service.submit_trial_job(form)
        bench.wait_for_end(service, form)
        assert json.loads(bench.output(form)) == expected
        if service.shares_code_folder:
            assert listing(folder) == expected

    def test_two_trials_see_each_others_files_only_where_the_folder_is_shared(self, bench: Bench,
                                                                             service: TrainingService) -> None:
        needs_this_machine(bench)
        code = bench.code({"readme": ""})
        step = f'{{ echo x > "{bench.witness}/%s"; until [ -e "{bench.witness}/%s" ]; do sleep 0.05; done; }}'
        first = bench.form(f'echo first > same && {step % ("one", "two")} && cat same', code=code)
        second = bench.form("echo second > same && cat same", code=code)
        service.submit_trial_job(first)
        bench.wait_for_file(bench.witness / "one")
        service.submit_trial_job(second)
        bench.wait_for_end(service, second)
        (bench.witness / "two").touch()
        bench.wait_for_end(service, first)
        assert bench.output(second) == "second\n"
        assert bench.output(first) == ("second\n" if service.shares_code_folder else "first\n")
        assert code.folder is not None
        assert (code.folder / "same").exists() == service.shares_code_folder

    def test_a_trial_with_a_variant_runs_the_changed_file_and_the_next_one_the_original(self, bench: Bench,
                                                                                    service: TrainingService) -> None:
        if not service.takes_variants:
            pytest.skip("trials of this platform take no variants of the code")
        code = bench.code({"trial.py": "print(open('part/words').read())\n", "part/words": "as it was"})
        command = f"{bench.platform.python} trial.py"
        changed = bench.form(command, code=code, variant=bench.variant(
            code, ChangedFile("part/words", "changed", "as it was")))
        plain = bench.form(command, code=code)
        for form, words in ((changed, "changed\n"), (plain, "as it was\n")):
            service.submit_trial_job(form)
            bench.wait_for_end(service, form)
            assert bench.output(form) == words
        assert code.folder is not None
        assert (code.folder / "part" / "words").read_text() == "as it was"

    @pytest.mark.parametrize(("command", "output", "exit_code"), [
        ("echo one && echo two", "one\ntwo\n", 0),
        ("echo c b a | tr ' ' '\\n' | sort | head -n 2", "a\nb\n", 0),
        ("""echo 'single $HOME' "double $WORD" back\\ slash""", "single $HOME double a  b back slash\n", 0),
        ('printf "%s|" $WORD "$WORD"', "a|b|a  b|", 0),
        ("false && echo not reached", "", 1),
        ("(exit 7) || exit 8; echo not reached", "", 8),
        ("false | true", "", 0),
        ("for i in 1 2\ndo\n  echo line $i # comment\ndone", "line 1\nline 2\n", 0),
        ("echo grün ☃", "grün ☃\n", 0),
    ])
    def test_the_command_is_shell_text(self, bench: Bench, service: TrainingService, command: str, output: str,
                                       exit_code: int) -> None:
        form = bench.form(command, environment={"WORD": "a  b"})
        service.submit_trial_job(form)
        status = TrialJobStatus.FAILED if exit_code else TrialJobStatus.SUCCEEDED
        detail = bench.wait_for_end(service, form, status)
        assert (bench.output(form), detail.exit_code) == (output, exit_code)
