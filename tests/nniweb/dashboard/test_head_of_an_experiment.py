"""What an experiment's pages say before any script runs: its best trial on every tab, where its code came from."""

from collections.abc import Callable

import pytest
from django.urls import reverse
from django.utils import timezone

from nniweb.dashboard.experiment_tabs.head import TABS
from nniweb.experiments.models import Attempt, Experiment, ExperimentEvent

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]
GIT = {"url": "https://git.example/me/code.git", "ref": "main", "folder": "src"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_names_the_best_trial(page: Page, make_attempt: MakeAttempt, tab: str) -> None:
    experiment = make_attempt(status="SUCCEEDED", final_number=0.5).trial.experiment
    make_attempt(experiment, status="SUCCEEDED", final_number=0.25)  # the best: the least
    make_attempt(experiment, status="FAILED", final_number=0.1)
    html = page(reverse(tab, args=[experiment.public_id]))
    assert 'data-cell="best_trial">trial 1</dd>' in html


def test_where_code_from_git_came_from_is_said_before_and_after_it_was_fetched(page: Page, make_experiment: Make
                                                                              ) -> None:
    experiment = make_experiment(code_git=GIT)
    address = f"/experiments/{experiment.public_id}/"
    assert "code from https://git.example/me/code.git (main), not fetched yet" in page(address)
    assert "not fetched yet" in page(f"{address}config/")
    Experiment.objects.filter(pk=experiment.pk).update(code_git={**GIT, "commit": COMMIT})
    assert "code from https://git.example/me/code.git at 0123456789" in page(address)
    config = page(f"{address}config/")
    assert f"<code>{COMMIT}</code>" in config
    assert "folder <code>src</code>, main" in config


def test_numbers_of_the_best_trials_are_on_the_right_and_words_on_the_left(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment(search_space={
        "rate": {"_type": "uniform", "_value": [0, 1]}, "size": {"_type": "choice", "_value": [8, 16]},
        "name": {"_type": "choice", "_value": ["a", "b"]}})
    html = page(f"/experiments/{experiment.public_id}/")
    assert '<th class="number">rate</th><th class="number">size</th><th>name</th>' in html


def test_a_status_among_the_events_has_its_colour_and_other_kinds_have_none(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment()
    for kind in ("launched", "RUNNING"):
        ExperimentEvent.objects.create(experiment=experiment, at=timezone.now(), kind=kind)
    for path in ("", "events/"):
        html = page(f"/experiments/{experiment.public_id}/{path}")
        assert '<span class="status RUNNING">RUNNING</span>' in html
        assert '<span class="">launched</span>' in html
