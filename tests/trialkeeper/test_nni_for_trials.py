"""Where trials find our ``nni`` module: beside the keeper's zipapp, in it, or by a link to the source."""

import os
import subprocess
import sys
from pathlib import Path

from trainingservice.keeper.keeper_bundle import build_keeper
from trialkeeper.nni_for_trials import damaged_files, folder_for_trials

TELL = "from trialkeeper.nni_for_trials import folder_for_trials; print(folder_for_trials(sys.argv[2]))"
UNPACK = "from trialkeeper.nni_for_trials import unpack_for_trials; unpack_for_trials(); " + TELL


def told(bundle: Path, code: str, attempt: Path) -> Path:
    result = subprocess.run([sys.executable, "-I", "-c", "import sys; sys.path.insert(0, sys.argv[1]); " + code,
                             str(bundle), str(attempt)], capture_output=True, text=True, check=True)
    return Path(result.stdout.strip())


def where_nni_is(folder: Path) -> str:
    result = subprocess.run([sys.executable, "-c", "import nni; print(nni.__file__)"], capture_output=True, text=True,
                            check=True, env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder)})
    return result.stdout.strip()


def test_unpacked_by_an_agent_it_is_a_folder_of_its_own_with_nothing_else(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path / "agent").path
    folder = told(bundle, UNPACK, tmp_path)
    assert folder == bundle.with_suffix(".for_trials")
    assert [path.name for path in folder.iterdir()] == ["nni"]
    assert where_nni_is(folder) == str(folder / "nni" / "__init__.py")
    assert {path.name for path in bundle.parent.iterdir()} == {bundle.name, folder.name}


def test_what_is_unpacked_stays_as_it_is(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path).path
    before = told(bundle, UNPACK, tmp_path).stat()
    assert told(bundle, UNPACK, tmp_path).stat().st_ino == before.st_ino
    assert told(bundle, TELL, tmp_path).stat().st_ino == before.st_ino


def test_a_file_that_a_power_cut_left_empty_is_found_and_made_again(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path).path
    folder = told(bundle, UNPACK, tmp_path)
    assert damaged_files(str(bundle)) == []
    module = folder / "nni" / "__init__.py"
    whole = module.read_bytes()
    module.write_bytes(b"")
    assert damaged_files(str(bundle)) == [str(module)]
    assert told(bundle, UNPACK, tmp_path) == folder
    assert module.read_bytes() == whole
    assert damaged_files(str(bundle)) == []
    assert {path.name for path in tmp_path.iterdir()} == {bundle.name, folder.name}


def test_what_python_compiled_and_a_power_cut_damaged_is_not_used_by_the_next_agents_trials(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path).path
    folder = told(bundle, UNPACK, tmp_path)
    where_nni_is(folder)
    [compiled] = (folder / "nni" / "__pycache__").glob("__init__.*.pyc")
    compiled.write_bytes(compiled.read_bytes()[:16] + b"\0" * 1000)
    told(bundle, UNPACK, tmp_path)
    assert where_nni_is(folder) == str(folder / "nni" / "__init__.py")


def test_without_it_trials_read_the_archive(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path).path
    assert told(bundle, TELL, tmp_path) == bundle / "for_trials"
    assert where_nni_is(bundle / "for_trials") == str(bundle / "for_trials" / "nni" / "__init__.pyc")


def test_where_nothing_can_be_written_or_somebody_cleaned_up_trials_read_the_archive(tmp_path: Path) -> None:
    bundle = build_keeper(tmp_path).path
    bundle.with_suffix(".for_trials").write_text("in the way")
    assert told(bundle, UNPACK, tmp_path) == bundle / "for_trials"
    bundle.with_suffix(".for_trials").unlink()
    (bundle.with_suffix(".for_trials") / "nni").mkdir(parents=True)
    assert told(bundle, TELL, tmp_path) == bundle / "for_trials"
    assert told(bundle, UNPACK, tmp_path) == bundle.with_suffix(".for_trials"), "the next agent mends it"


def test_from_the_source_it_is_a_link_in_the_attempts_folder(tmp_path: Path) -> None:
    folder = folder_for_trials(str(tmp_path))
    assert folder == str(tmp_path / "for_trials")
    assert where_nni_is(Path(folder)) == str(tmp_path / "for_trials" / "nni" / "__init__.py")
