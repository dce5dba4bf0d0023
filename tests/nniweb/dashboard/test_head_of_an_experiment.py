"""What an experiment's pages say before any script runs: its best trial on every tab, where its code came from."""

from collections.abc import Callable
from socket import gethostname
from urllib.parse import urlencode

import pytest
from django.urls import reverse
from django.utils import timezone

from nniweb.dashboard.experiment_tabs.head import TABS
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentEvent, Worker

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
    trial = experiment.trials.get(sequence_id=1).public_id
    assert f'<a data-cell="best" title="0.25" href="/trials/{trial}/">0.25</a>' in html


@pytest.mark.parametrize("tab", TABS)
def test_links_of_the_tabs_carry_the_selection_before_any_script_runs(page: Page, make_attempt: MakeAttempt,
                                                                      tab: str) -> None:
    experiment = make_attempt(status="SUCCEEDED", final_number=0.5).trial.experiment
    for given in ("?selected=a,b", *(["?trials=a,b"] if tab == "experiment-compare" else [])):
        html = page(reverse(tab, args=[experiment.public_id]) + given)
        for name in TABS:
            compared = "&amp;trials=a,b" if name == "experiment-compare" else ""
            assert f'<a href="{reverse(name, args=[experiment.public_id])}?selected=a,b{compared}"' in html


def test_links_of_the_tabs_carry_no_more_than_an_address_takes(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment()
    address = reverse("experiment-timeline", args=[experiment.public_id])
    for selected, carried in (("a", "?selected=a"), (",".join("b" * 101), ""), ('"><i>', "?selected=%22%3E%3Ci%3E")):
        assert f'href="{reverse("experiment-log", args=[experiment.public_id])}{carried}"' in page(
            f"{address}?{urlencode({'selected': selected})}")
    many = ",".join("c" * 21)  # more than are compared at once
    assert f'{reverse("experiment-compare", args=[experiment.public_id])}?selected={many}"' in page(
        f"{address}?selected={many}")


@pytest.mark.parametrize("tab", ["experiment", "experiment-config"])
def test_by_which_tuner_auto_proposes_is_said_with_the_reason(page: Page, make_experiment: Make, tab: str) -> None:
    chosen = {"tuner": "TPE", "reason": {"code": "auto_many_results", "most": 150}}
    experiment = make_experiment(tuner={"name": "Auto"}, tuner_choice=chosen)
    address = reverse(tab, args=[experiment.public_id])
    said = page(address)
    assert "<dd>Auto: TPE</dd>" in said
    assert "There are more than 150 results" in said
    Experiment.objects.filter(pk=experiment.pk).update(tuner={"name": "TPE"})  # somebody has exchanged it
    assert "There are more than 150 results" not in page(address)


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
        "title": {"_type": "choice", "_value": ["a", "b"]}})  # in the order in which PostgreSQL keeps names, too
    html = page(f"/experiments/{experiment.public_id}/")
    assert '<th class="breaks number">rate</th><th class="breaks number">size</th><th class="breaks">title</th>' in html


def test_a_status_among_the_events_has_its_colour_and_other_kinds_have_none(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment()
    for kind in ("launched", "RUNNING"):
        ExperimentEvent.objects.create(experiment=experiment, at=timezone.now(), kind=kind)
    for path in ("", "events/"):
        html = page(f"/experiments/{experiment.public_id}/{path}")
        assert '<span class="status RUNNING">RUNNING</span>' in html
        assert '<span class="">launched</span>' in html


def test_events_are_chosen_by_the_words_that_they_are_shown_with(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment()
    for kind in ("launched", "NO_MORE_TRIAL"):
        ExperimentEvent.objects.create(experiment=experiment, at=timezone.now(), kind=kind)
    html = page(f"/experiments/{experiment.public_id}/events/", kind="NO_MORE_TRIAL")
    assert '<option value="NO_MORE_TRIAL" selected>FINISHING</option>' in html
    assert '<option value="launched">launched</option>' in html


def test_events_come_in_pages_that_keep_the_filter(page: Page, make_experiment: Make) -> None:
    experiment = make_experiment()
    ExperimentEvent.objects.bulk_create(ExperimentEvent(
        experiment=experiment, at=timezone.now(), kind="changed", message=f"change {number}.") for number in range(130))
    ExperimentEvent.objects.create(experiment=experiment, at=timezone.now(), kind="launched", message="at last")
    address = f"/experiments/{experiment.public_id}/events/"
    first, second = (page(address, kind="changed", page=number) for number in (1, 2))
    assert "Page 1 of 2" in first
    assert 'rel="next" href="?kind=changed&amp;page=2"' in first
    changes = ("change 129.", "change 30.", "change 29.", "change 0.")
    assert [text in first for text in changes] == [True, True, False, False]
    assert [text in second for text in changes] == [False, False, True, True]
    assert "at last" not in first + second
    assert 'rel="prev" href="?kind=changed&amp;page=1"' in second


def test_a_cluster_whose_machines_are_all_away_is_said_on_the_page_with_what_the_check_found(
        page: Page, make_experiment: Make) -> None:
    found = "The check before the launch: Every machine refuses connections (127.0.0.1)."
    experiment = make_experiment(notes=[found])
    Cluster.objects.filter(pk=experiment.cluster_id).update(
        health="away", message="Every machine refuses connections.", reason="every_machine")
    Worker.objects.create(id="w", host=gethostname(), pid=1, started_at=timezone.now(), heard_at=timezone.now())
    address = f"/experiments/{experiment.public_id}/"
    assert "refuses connections" in page(address)
    assert found in page(f"{address}config/")
    cluster = page(f"/clusters/{experiment.cluster.public_id}/")
    assert "away" in cluster
    assert "Every machine refuses connections." in cluster
