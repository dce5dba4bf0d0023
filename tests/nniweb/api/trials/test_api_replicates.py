"""Replicates over REST, in exports, in charts and in the table: a proposal is one row with its mean."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from nniweb.experiments.charts.parameter_columns import results_of
from nniweb.experiments.charts.result_chart import chart_of
from nniweb.experiments.downloads.export import write_csv
from nniweb.experiments.models import Attempt, Experiment, Proposal, Trial, User
from nniweb.experiments.results.best_so_far import improvements_of

#: Values of the replicates of each proposal.
VALUES = [[1.0, 2.0, 3.0], [0.5], [0.2, 0.4, 0.9]]


@pytest.fixture
def repeated(make_experiment: Callable[..., Experiment], make_attempt: Callable[..., Attempt]) -> Experiment:
    """Trials 0 to 2, 3, and 4 to 6 of three proposals; the second was dropped with the luckiest single value."""
    experiment = make_experiment(replicates={"n": 3}, search_space={"x": {"_type": "uniform", "_value": [0, 1]}})
    for number, values in enumerate(VALUES):
        first = Trial.objects.filter(experiment=experiment).count()
        proposal = Proposal.objects.create(
            experiment=experiment, number=number, first_sequence_id=first, begun=len(values), wanted=len(values),
            state="complete" if len(values) == 3 else "dropped", value_count=len(values),
            mean=sum(values) / len(values), standard_error=0.25 if len(values) == 3 else None)
        for replicate, value in enumerate(values):
            attempt = make_attempt(experiment, status="SUCCEEDED", final_number=value, counted_value=value,
                                   proposal=proposal, replicate=replicate, seed=100 + replicate)
            attempt.trial.parameter_sets.update(value={"x": number / 4})
    return experiment


@pytest.fixture
def get(with_token: Callable[..., APIClient], admin: User, repeated: Experiment) -> Callable[..., Any]:
    client = with_token(admin)

    def get(address: str = "trials/", **query: Any) -> Any:
        answer = client.get(f"/api/v1/experiments/{repeated.public_id}/{address}", query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return get


def numbers(page: Any) -> list[int]:
    return [row["sequence_id"] for row in page["results"]]


def test_a_list_by_proposals_has_the_first_trial_of_each_with_its_mean(get: Callable[..., Any]) -> None:
    assert numbers(get()) == list(range(7))
    page = get(group="proposals")
    assert numbers(page) == [0, 3, 4]
    assert page["results"][2]["proposal"] == {
        "first": 4, "replicate": 0, "seed": 100, "state": "complete", "begun": 3, "wanted": 3, "value_count": 3,
        "failed_count": 0, "mean": 0.5, "standard_error": 0.25}
    assert numbers(get(group="proposals", order="-mean")) == [0, 3, 4]
    assert numbers(get(group="proposals", order="standard_error")) == [0, 4, 3]


def test_a_proposal_fits_where_one_of_its_trials_does(get: Callable[..., Any]) -> None:
    assert numbers(get(group="proposals", filter="result > 0.8 and result < 1.5")) == [0, 4]
    assert numbers(get(group="proposals", min_final_value=2.5)) == [0]


def test_filters_know_the_proposal(get: Callable[..., Any]) -> None:
    assert numbers(get(filter="proposal = 4")) == [4, 5, 6]
    assert numbers(get(filter="mean < 1 and replicate = 0")) == [3, 4]
    assert numbers(get(filter="standard_error = none")) == [3]


def test_the_best_is_the_best_mean_of_those_that_were_run_in_full(get: Callable[..., Any], repeated: Experiment
                                                                   ) -> None:
    document = get("")
    assert document["replicates"] == 3
    progress = document["progress"]
    assert (progress["best_value"], progress["best_standard_error"], progress["best_replicates"],
            progress["best_sequence_id"]) == (0.5, 0.25, 3, 4)
    assert improvements_of([repeated.pk]) == {repeated.pk: [(0, 2.0), (4, 0.5)]}


def test_the_chart_has_a_point_for_each_proposal(get: Callable[..., Any], repeated: Experiment) -> None:
    chart = get("chart/")
    assert (chart["sequence_id"], chart["value"], chart["final"], chart["standard_error"]) == (
        [0, 3, 4], [2.0, 0.5, 0.5], [1, 0, 1], [0.25, None, 0.25])
    assert [point.value for point in chart_of(repeated).points] == [2.0, 0.5, 0.5]


def test_charts_of_parameters_have_each_proposal_once(repeated: Experiment) -> None:
    results = results_of(repeated)
    assert (results.sequence_ids, results.values) == ([0, 3, 4], [2.0, 0.5, 0.5])
    assert results.columns[0].values == [0.0, 0.25, 0.5]


def test_the_csv_has_mean_and_seed_of_each_trial(repeated: Experiment) -> None:
    out = io.StringIO()
    write_csv(repeated, out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [(row["proposal"], row["replicate"], row["seed"], row["mean"], row["standard_error"], row["replicates"])
            for row in rows[2:5]] == [("0", "2", "102", "2.0", "0.25", "3"), ("3", "0", "100", "0.5", "", "1"),
                                      ("4", "0", "100", "0.5", "0.25", "3")]


def test_the_table_shows_a_proposal_as_one_row(client: Client, admin: User, repeated: Experiment) -> None:
    client.force_login(admin)

    def page(**query: str) -> str:
        return client.get(f"/experiments/{repeated.public_id}/trials/", query).content.decode()

    def rows(text: str) -> list[str]:
        return re.findall(r'<a data-cell="number" href="/trials/\w+/">(\d+)</a>', text)

    text = page()
    assert rows(text) == ["4", "3", "0"]
    assert re.findall(r'data-cell="mean">([^<]*)<', text)[:3] == ["0.5 ± 0.25 (3)", "0.5 (1)", "2 ± 0.25 (3)"]
    assert "3 proposals" in text
    assert re.findall(r'data-open-replicates aria-expanded="false"( hidden)?>', text)[:3] == ["", " hidden", ""]
    assert rows(page(group="none")) == [str(number) for number in range(6, -1, -1)]
    assert rows(page(order="mean")) == ["3", "4", "0"]
    overview = client.get(f"/experiments/{repeated.public_id}/").content.decode()
    assert rows(overview) == ["4", "0"]
    assert "0.5 ± 0.25 (3)" in overview
    trial = Trial.objects.get(experiment=repeated, sequence_id=5)
    of_trial = client.get(f"/trials/{trial.public_id}/").content.decode()
    assert "0.5 ± 0.25 (3)" in of_trial
    assert "replicate 1, seed 101" in of_trial


def test_the_table_asks_no_more_for_more_proposals(
        client: Client, admin: User, repeated: Experiment, make_attempt: Callable[..., Attempt]) -> None:
    client.force_login(admin)

    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"/experiments/{repeated.public_id}/trials/").status_code == 200
        return len(asked)

    queries()
    before = queries()
    for number in range(20):
        first = Trial.objects.filter(experiment=repeated).count()
        proposal = Proposal.objects.create(experiment=repeated, number=10 + number, first_sequence_id=first, mean=1.0)
        make_attempt(repeated, status="SUCCEEDED", final_number=1.0, proposal=proposal, replicate=0, seed=1)
    assert queries() == before
