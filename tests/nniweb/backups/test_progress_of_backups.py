"""Whoever waits for a backup is told how far it is, and how long it will take."""

from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from nniweb.backups import database, progress
from nniweb.backups.progress import Progress, in_time
from nniweb.backups.taking import take
from nniweb.experiments.models import User


def test_a_sentence_each_few_seconds_says_how_much_is_done_and_how_long_the_rest_takes() -> None:
    said: list[str] = []
    clock = iter([0.0, 1.0, 6.0, 7.0, 12.0, 1000.0])
    copying = Progress("Copying", 100e6, said.append, lambda: next(clock))
    for done in (1e6, 20e6, 30e6, 50e6):
        copying.at(done)
    copying.add(70e6)
    assert said == ["Copying: 20 of about 100 MB (20%), about 24 s left",
                    "Copying: 50 of about 100 MB (50%), about 12 s left",
                    "Copying: 120 of about 100 MB (99%), about 10 s left"]


@pytest.mark.parametrize(("seconds", "words"), [(0.1, "1 s"), (89, "89 s"), (600, "10 min"), (12_600, "3.5 h")])
def test_times_are_told_in_units_that_fit(seconds: float, words: str) -> None:
    assert in_time(seconds) == words


@pytest.mark.django_db(transaction=True)
def test_a_backup_tells_what_it_copies_and_packs(admin: User, tmp_path: Path, settings: LazySettings,
                                                 monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    settings.DATA_FOLDER = tmp_path / "data"
    (tmp_path / "data" / "files").mkdir(parents=True)
    (tmp_path / "data" / "files" / "code").write_bytes(b"x" * 3_000_000)
    monkeypatch.setattr(progress, "EACH", 0.0)
    monkeypatch.setattr(database, "_STEPS", 1000)
    said: list[str] = []
    take(tmp_path / "a.tar.gz", timezone.now(), say=said.append)
    whats = list(dict.fromkeys(sentence.partition(":")[0] for sentence in said))
    # pg_dump is asked each second, and this takes less
    assert [what for what in whats if what != "Copying the database" or connection.vendor == "sqlite"] == [
        *(["Copying the database"] if connection.vendor == "sqlite" else []), "Packing the database", "Packing files"]
    assert "3 of about 3 MB (99%)" in said[-1]
    monkeypatch.setattr(progress, "EACH", 5.0)
    call_command("backup", str(tmp_path / "b.tar.gz"))
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("The database has ")
    assert "and files have 3.0 MB" in first
    assert "will take about" in first
