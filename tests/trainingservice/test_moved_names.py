"""What platforms of third parties import still works under the names that modules had before."""

import importlib
import subprocess
import sys

import pytest

from trainingservice.moved_names import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_module_is_found_under_its_old_name_with_a_warning(old: str) -> None:
    sys.modules.pop(f"trainingservice.{old}", None)
    with pytest.warns(DeprecationWarning, match=rf"trainingservice\.{MOVED[old]} now"):
        found = importlib.import_module(f"trainingservice.{old}")
    assert found is importlib.import_module(f"trainingservice.{MOVED[old]}")
    assert found.__spec__ is not None
    assert found.__spec__.name == f"trainingservice.{MOVED[old]}"


@pytest.mark.parametrize(("old", "names", "now"), [
    ("polling", "MustWait, Observation, PollingTrainingService", "polling.service"),
    ("shared_folder", "SharedFolder", "shared_folder.folder")])
def test_a_package_has_what_the_module_in_its_place_had(old: str, names: str, now: str) -> None:
    code = f"from trainingservice.{old} import {names}"
    ran = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert f"is in trainingservice.{now} now" in ran.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        from trainingservice.polling import no_such_name  # noqa: F401
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("trainingservice.no_such_module")
