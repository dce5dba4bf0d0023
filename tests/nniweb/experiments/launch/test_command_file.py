"""Whether the file that a trial's command runs is in its code."""

from pathlib import Path

import pytest

from nniweb.experiments.launch.command_file import command_findings


@pytest.fixture
def code(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    return tmp_path


@pytest.mark.parametrize(("command", "said"), [
    ("python3 train.py", "The command runs train.py, which is not in the code. Add it, or correct trialCommand."),
    ("cd src && python3 trian.py", "The command runs src/trian.py, which is not in the code; did you mean train.py?"),
])
def test_a_file_that_is_missing_is_named_and_forbids_nothing(code: Path, command: str, said: str) -> None:
    [finding] = command_findings(command, code)
    assert (finding.message, finding.ok, finding.blocks) == (said, False, False)


def test_a_file_that_is_there_is_good(code: Path) -> None:
    assert [finding.ok for finding in command_findings("python3 src/train.py", code)] == [True]


def test_a_command_that_needs_a_file_needs_code() -> None:
    [finding] = command_findings("bash run.sh", None)
    assert "no code was given" in finding.message
    assert command_findings("train --all", None) == []


@pytest.mark.parametrize("command", [
    "python3 ../kept/sealing.key", "python3 ../kept/sealing", "cd .. && sh kept/sealing.key", "python3 link/sealing",
    "python3 link/sealing.key", "./" + "a" * 300, "python3 train\0.py"])
def test_nothing_is_said_of_files_outside_of_the_code_and_of_what_is_no_path(code: Path, command: str) -> None:
    (code / "kept").mkdir()
    (code / "kept" / "sealing.key").write_text("")
    (code / "src" / "link").symlink_to(code / "kept")
    assert command_findings(command, code / "src") == []
