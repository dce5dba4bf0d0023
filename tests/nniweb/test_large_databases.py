"""The program that makes large databases makes rows that pages can show, and later rows go on behind them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import HERE
from benchmarks.large import background
from benchmarks.large.filling import Size, fill
from benchmarks.large.kept import Made
from benchmarks.large.processor_time import taken
from benchmarks.large.questions import OF_ALL, OF_ONE
from benchmarks.large_database import POSTGRESQL
from nniweb.experiments.models import Attempt, Experiment, Metric, Trial, TrialOutput, TrialParameters

pytestmark = pytest.mark.django_db(transaction=True)


def test_its_rows_are_counted_shown_and_filtered(admin: Any, with_token: Any, make_attempt: Any) -> None:
    said: list[str] = []
    names = fill(Size(3, 60, 600), admin, said.append)
    assert len(names) == Experiment.objects.count() == 3
    models = (Trial, TrialParameters, Attempt, TrialOutput, Metric)
    assert [model._default_manager.count() for model in models] == [60, 60, 60, 60, 600]
    assert any("600 of 600" in sentence for sentence in said)
    client = with_token(admin)
    client.force_login(admin)
    trial = Trial.objects.filter(experiment__public_id=names[1]).first()
    assert trial is not None
    for question in (*OF_ALL, *OF_ONE):
        answer = client.get(question.of(names[1], trial.public_id))
        assert answer.status_code == 200, (question, answer.content)
    trials = client.get(f"/api/v1/experiments/{names[1]}/trials/", {"filter": "x > 0.5"}).json()
    assert 0 < len(trials["results"]) < 20
    assert make_attempt().trial.pk > Trial.objects.filter(experiment__public_id=names[2]).last().pk


class _Figures:
    """A report that remembers."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}

    def add(self, what: str, measured: float, unit: str, **more: Any) -> None:
        self.found[what] = measured


def test_what_was_made_to_be_removed_is_gone_also_where_its_removal_takes_longer_than_it_is_watched(
        admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    [kept, removed] = fill(Size(2, 300, 600), admin, lambda text: None)
    monkeypatch.setattr(background, "WATCHED", 0.0)
    figures: Any = _Figures()
    background.delete(removed, figures, is_whole=False)
    assert 0 < Trial.objects.filter(experiment__public_id=removed).count() <= 150
    assert figures.found["there, the longest transaction"] > 0
    background.delete(removed, figures, is_whole=True)
    assert not Trial.objects.filter(experiment__public_id=removed).exists()
    assert Trial.objects.filter(experiment__public_id=kept).count() == 150


def test_a_folder_without_a_whole_database_is_not_asked_and_one_with_something_is_not_filled(tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = subprocess.run([sys.executable, str(HERE / "large_database.py"), *arguments, str(tmp_path)],
                              capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        return done.stderr

    assert f"--use: there is no whole database in {tmp_path}; --keep {tmp_path} makes one" in said("--use")
    (tmp_path / POSTGRESQL).mkdir()
    assert f"--keep: {tmp_path} is not empty" in said("--keep")
    assert [path.name for path in tmp_path.iterdir()] == [POSTGRESQL]


def test_what_was_made_is_read_as_it_was_kept(tmp_path: Path) -> None:
    assert Made.read(tmp_path) is None
    made = Made("xa0", "xb0", "xc0", 1000, 100, {"home page": 71.5})
    made.keep(tmp_path)
    assert Made.read(tmp_path) == made


def test_processor_time_grows_with_what_a_process_and_the_children_of_a_server_compute() -> None:
    server = subprocess.Popen([sys.executable, "-c", "import subprocess, sys; "
                               "subprocess.run([sys.executable, '-c', 'sum(range(3_000_000))']); "
                               "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "\n"
        before = taken(server.pid)
        assert before.database >= 20, "of the child that has ended"
        sum(range(1_000_000))
        spent = taken(server.pid) - before
        assert spent.web > 0
        assert spent.database >= 0
        assert taken(None).database == 0
    finally:
        server.communicate("\n")
