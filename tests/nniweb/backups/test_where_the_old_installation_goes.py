"""Where a restore puts the installation that was there before it."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nniweb.backups.putting_back import make_aside

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
