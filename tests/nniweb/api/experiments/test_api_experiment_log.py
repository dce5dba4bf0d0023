"""The log of an experiment over REST: its last lines, the way back, filters, and all of it as a file."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from nniweb.experiments.models import Experiment, LogLine, User


@pytest.fixture
def experiment(make_experiment: Callable[..., Experiment], alice: User) -> Experiment:
    made = make_experiment(owner=alice)
    LogLine.objects.bulk_create(LogLine(
        experiment=made, number=number, at=timezone.now(), level=30 if number % 5 == 0 else 20,
        source="tuner" if number % 2 else "worker", message=f"line {number}") for number in range(4, 31))
    return made


def numbers(answer: Any) -> list[int]:
    return [line["number"] for line in answer.json()["lines"]]


def test_the_last_lines_and_those_before_and_after_a_line(experiment: Experiment, alice: User,
                                                          as_user: Callable[[User], APIClient]) -> None:
    client, path = as_user(alice), f"/api/v1/experiments/{experiment.public_id}/log/"
    last = client.get(path, {"limit": 5})
    assert numbers(last) == [26, 27, 28, 29, 30]
    assert last.json()["has_earlier"]
    assert (last.json()["first"], last.json()["last"]) == (4, 30)
    assert last.json()["lines"][-1] | {"at": None} == {
        "number": 30, "at": None, "level": "WARNING", "source": "worker", "trial": "", "message": "line 30"}
    before = client.get(path, {"limit": 5, "before": 9})
    assert numbers(before) == [4, 5, 6, 7, 8]
    assert not before.json()["has_earlier"]
    assert numbers(client.get(path, {"limit": 2, "after": 28})) == [29, 30]


def test_filters_by_level_source_and_text(experiment: Experiment, alice: User,
                                          as_user: Callable[[User], APIClient]) -> None:
    client, path = as_user(alice), f"/api/v1/experiments/{experiment.public_id}/log/"
    assert numbers(client.get(path, {"level": "WARNING"})) == [5, 10, 15, 20, 25, 30]
    assert numbers(client.get(path, {"level": "WARNING", "source": "tuner"})) == [5, 15, 25]
    assert numbers(client.get(path, {"q": "LINE 2", "source": "worker"})) == [20, 22, 24, 26, 28]
    assert client.get(path, {"level": "LOUD"}).status_code == 400


def test_the_log_as_a_file_is_that_of_those_who_may_see_it(experiment: Experiment, alice: User, charlie: User,
                                                           as_user: Callable[[User], APIClient]) -> None:
    path = f"/api/v1/experiments/{experiment.public_id}/log/text/"
    answer = as_user(alice).get(path, {"level": "WARNING"})
    assert answer["Content-Type"].startswith("text/plain")
    lines = answer.content.decode().splitlines()
    assert len(lines) == 6
    assert lines[0].endswith("WARNING tuner: line 5")
    assert as_user(charlie).get(path).status_code == 404
