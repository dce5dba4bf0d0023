"""The program that makes large databases makes rows that pages can show, and later rows go on behind them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.large.filling import Size, fill
from benchmarks.large.questions import OF_ALL, OF_ONE
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
