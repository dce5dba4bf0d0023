"""Where a restore puts the installation that was there before it."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nniweb.backups import putting_back
from nniweb.backups.putting_back import make_aside
from nniweb.storage.data_folder import why_half_restored

#: On PostgreSQL the database is asked whether it can be copied there.
pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_it_goes_beside_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert make_aside(tmp_path / "data", NOW) == tmp_path / "data.before-restore-20300102-030405"
    assert (tmp_path / "data.before-restore-20300102-030405").stat().st_mode & 0o777 == 0o700


def test_it_goes_into_the_data_folder_where_the_folder_around_it_belongs_to_somebody_else(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    mkdir = Path.mkdir

    def refused(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path.parent == tmp_path:  # as the system says to a service below /var/lib
            raise PermissionError(13, "Permission denied", str(path))
        mkdir(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", refused)
    assert make_aside(tmp_path / "data", NOW) == tmp_path / "data" / "before-restore-20300102-030405"


def test_it_goes_into_a_data_folder_that_is_a_file_system_of_its_own() -> None:
    now = NOW + timedelta(seconds=os.getpid())  # another run of the tests may do the same
    aside = make_aside(Path("/dev/shm"), now)
    shutil.rmtree(aside)
    assert aside == Path(f"/dev/shm/before-restore-{now:%Y%m%d-%H%M%S}")


def test_a_restore_that_was_killed_between_two_moves_is_told_until_it_is_repeated(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "data", tmp_path / "data" / ".restore-x"
    for part in (folder / "files", scratch / "files", tmp_path / "old"):
        part.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(putting_back, "_exchange", lambda *_: os._exit(9))
            putting_back._replace(folder, scratch, tmp_path / "old", frozenset())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert "was interrupted" in why_half_restored(folder)
    assert str(tmp_path / "old") in why_half_restored(folder)

    def fail(*_: object) -> None:
        raise OSError("full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(putting_back, "_exchange", fail)
        with pytest.raises(OSError, match="full"):
            putting_back._replace(folder, scratch, tmp_path / "older", frozenset())
        assert str(tmp_path / "old") in why_half_restored(folder), "one that changes nothing mends nothing"
        patch.setattr(putting_back, "_exchange", lambda *_: None)
        putting_back._replace(folder, scratch, tmp_path / "older", frozenset())
    assert why_half_restored(folder) == ""
