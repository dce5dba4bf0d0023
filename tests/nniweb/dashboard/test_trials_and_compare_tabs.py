"""The table of trials and the trials side by side, as the server makes them: columns, orders, mistakes, few queries."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from nniweb.experiments.models import Attempt, Experiment, MetricName, MetricNumber, Trial, User

Make = Callable[..., Attempt]


@pytest.fixture
def page(client: Client, admin: User) -> Callable[..., str]:
    """The text of a page of this experiment."""
    client.force_login(admin)

    def page(experiment: Experiment, tab: str, **query: Any) -> str:
        answer = client.get(f"/experiments/{experiment.public_id}/{tab and f'{tab}/'}", query, follow=True)
        assert answer.status_code == 200
        return answer.content.decode()

    return page


@pytest.fixture
def three(make_experiment: Callable[..., Experiment], make_attempt: Make) -> Experiment:
    experiment = make_experiment(search_space={"lr": {}, "net": {}})
    for number, (lr, kind) in enumerate([(0.5, "deep"), (0.25, "wide"), (0.125, "deep")]):
        attempt = make_attempt(experiment, status="SUCCEEDED", final_number=float(number))
        attempt.trial.parameter_sets.update(value={"lr": lr, "net": {"kind": kind, "size": 3}})
    return experiment


def rows(text: str) -> list[str]:
    """Numbers of the trials in the table."""
    return re.findall(r'<a data-cell="number" href="/trials/\w+/">(\d+)</a>', text)


def headings(text: str) -> list[str]:
    found = re.search(r'<table class="trials.*?</thead>', text.replace("<wbr>", ""), re.DOTALL)
    return re.findall(r'<th scope="col"[^>]*>(?:<a [^>]*>)?([^<]*)', found[0]) if found else []


def test_the_table_has_the_columns_and_the_order_of_its_address(page: Callable[..., str], three: Experiment) -> None:
    usual = page(three, "trials")
    assert rows(usual) == ["2", "1", "0"]
    assert headings(usual) == ["No.", "Status", "Result", "Latest", "Duration", "lr", "net.kind", "net.size", "Machine",
                               "Why"]
    text = page(three, "trials", columns="parameters.net.kind,gpu,parameters.lr,nonsense", order="parameters.lr",
                filter="lr < 0.5")
    assert headings(text) == ["No.", "lr", "net.kind", "GPU"]
    assert rows(text) == ["2", "1"]
    assert re.findall(r'aria-sort="(\w+)"><a href="[^"]*">([^<]*)', text) == [("ascending", "lr")]
    assert "net.<wbr>kind" in text, "a long name may take several lines"
    assert "wide" in text


def test_a_page_has_as_many_rows_as_were_asked_for(page: Callable[..., str], make_attempt: Make,
                                                   three: Experiment) -> None:
    for _ in range(27):
        make_attempt(three)
    first = page(three, "trials", page_size=25, filter="number >= 0")
    assert len(rows(first)) == 25
    assert "page_size=25" in first[first.index('rel="next"'):]
    assert len(rows(page(three, "trials", page_size=25, page=2))) == 5
    assert len(rows(page(three, "trials", page_size=7))) == 30, "a size that is not offered is left out"


def test_a_filter_that_is_not_understood_is_shown_with_its_place(page: Callable[..., str], three: Experiment) -> None:
    text = page(three, "trials", filter="lr < 1 and nett.kind = <b>")
    assert "<mark>" in text
    assert "&lt;b&gt;" in text
    assert rows(text) == []
    near = page(three, "trials", filter="lr2 < 1")
    assert "did you mean lr?" in near
    assert "<mark>lr2</mark> &lt; 1" in near


def test_the_number_of_queries_does_not_grow_with_the_rows(page: Callable[..., str], make_attempt: Make,
                                                           three: Experiment) -> None:
    def queries(tab: str, **query: Any) -> int:
        with CaptureQueriesContext(connection) as found:
            page(three, tab, **query)
        return len(found)

    table = queries("trials", filter="lr < 1 and machine = none")
    ids = list(Trial.objects.values_list("public_id", flat=True))
    side_by_side = queries("compare", trials=",".join(ids[:2]))
    for _ in range(15):
        make_attempt(three)
    assert queries("trials", filter="x = 0.5 or lr < 1 and machine = none") <= table + 1
    assert queries("compare", trials=",".join(Trial.objects.values_list("public_id", flat=True))) == side_by_side


def compared(text: str) -> list[str]:
    return re.findall(r'<span class="curve-mark curve-\d line-\d"></span> <a href="/trials/\w+/">(\d+)</a>', text)


def test_trials_are_compared_by_id_or_number_in_the_order_given(page: Callable[..., str], three: Experiment) -> None:
    second = Trial.objects.get(sequence_id=1).public_id
    text = page(three, "compare", trials=f"2,{second},2,77")
    assert compared(text) == ["2", "1"]
    assert "has no trial 77" in text
    data = re.search(r'<script id="page-data"[^>]*>(.*?)</script>', text)
    assert data
    assert json.loads(data[1])["trials"] == [Trial.objects.get(sequence_id=2).public_id, second]
    assert compared(page(three, "compare", trials="0", add="2, 1")) == ["0", "2", "1"]
    assert "Add another one" in page(three, "compare", trials="0")


def test_parameters_that_differ_are_marked(page: Callable[..., str], three: Experiment) -> None:
    text = page(three, "compare", trials="0,2")
    marked = {name: bool(mark) for mark, name in re.findall(
        r'<tr( class="differs")?><th scope="row">([\w.]+)', text.replace("<wbr>", ""))}
    assert marked == {"lr": True, "net.kind": False, "net.size": False}
    assert 'class="compare only-differing"' in page(three, "compare", trials="0,2", only="differing")


def wide(make_experiment: Callable[..., Experiment], make_attempt: Make, count: int) -> Experiment:
    """Two trials of an experiment with so many parameters: every tenth differs."""
    names = [f"layer{number}/units" for number in range(count)]
    experiment = make_experiment(search_space={
        name: {"_type": "choice", "_value": [0, 1]} for name in names})
    for trial in range(2):
        attempt = make_attempt(experiment, status="SUCCEEDED", final_number=float(trial))
        attempt.trial.parameter_sets.update(value={
            name: trial if number % 10 == 9 else 0 for number, name in enumerate(names)})
    return experiment


def test_each_of_many_parameters_has_a_column_behind_all_others(
        page: Callable[..., str], make_experiment: Callable[..., Experiment], make_attempt: Make) -> None:
    experiment = wide(make_experiment, make_attempt, 24)
    names = [f"layer{number}/units" for number in range(24)]
    text = page(experiment, "trials")
    assert headings(text) == ["No.", "Status", "Result", "Latest", "Duration", "Machine", "Why", *names]
    assert text.count('data-parameter="layer23/units"') == 3, "two rows, and the one for trials to come"
    overview = page(experiment, "")
    assert re.findall(r'<th class="breaks number">([^<]*)', overview.replace("<wbr>", "")) == names
    assert 'data-cell="parameters"' not in overview


def test_more_parameters_than_a_hundred_have_columns_when_they_are_chosen(
        page: Callable[..., str], make_experiment: Callable[..., Experiment], make_attempt: Make) -> None:
    experiment = wide(make_experiment, make_attempt, 120)
    assert len(headings(page(experiment, "trials"))) == 7 + 100
    assert headings(page(experiment, "trials", columns="result,parameters.layer119/units"))[1:] == [
        "Result", "layer119/units"]


def test_rows_stand_as_close_as_the_address_says(page: Callable[..., str], three: Experiment) -> None:
    assert 'class="trials comfortable"' in page(three, "trials")
    compact = page(three, "trials", density="compact")
    assert 'class="trials compact"' in compact
    assert 'id="show-all" href' in compact
    assert re.search(r'id="show-all"[^>]* hidden>', compact), "nothing is filtered by it"
    assert "density=compact" in compact[compact.index("<thead"):], "sorting keeps it"
    assert 'class="trials comfortable"' in page(three, "trials", density="dense"), "an unknown word is left out"


def test_parameters_that_differ_come_first(page: Callable[..., str], make_experiment: Callable[..., Experiment],
                                           make_attempt: Make) -> None:
    text = page(wide(make_experiment, make_attempt, 30), "compare", trials="0,1").replace("<wbr>", "")
    rows = re.findall(r'<tr(?: class="differs")?><th scope="row">(layer\d+)', text)
    assert rows[:4] == ["layer9", "layer19", "layer29", "layer0"]
    assert len(rows) == 30
    assert "Parameters: 3 of 30 differ<" in text


def test_one_trial_alone_is_not_reduced_to_what_differs(page: Callable[..., str], three: Experiment) -> None:
    text = page(three, "compare", trials="0", only="differing")
    assert 'class="compare"' in text
    assert 'id="only-differing"' not in text


def test_further_metrics_stand_side_by_side_with_the_direction_of_objectives(page: Callable[..., str], three: Experiment
                                                                            ) -> None:
    three.objectives = [{"metric": "gain", "optimize_mode": "maximize"},
                        {"metric": "cost", "optimize_mode": "minimize"}]
    three.optimize_mode = "maximize"
    three.save()
    trials = list(Trial.objects.order_by("sequence_id"))
    for name, numbers in {"cost": [(3.5, None), (None, 2.25)], "size": [(8, 9)], "of_others": []}.items():
        metric = MetricName.objects.create(experiment=three, name=name)
        MetricNumber.objects.bulk_create(MetricNumber(trial=trial, metric=metric, final=final, latest=latest)
                                         for trial, (final, latest) in zip(trials, numbers, strict=False))
    text = page(three, "compare", trials="0,1")
    cells = re.findall(r'data-metric="(\w+)" data-part="(\w+)" data-number="[^"]*">([^<]*)</span>', text)
    assert cells == [("cost", "final", "3.5"), ("cost", "final", ""), ("size", "final", "8"), ("size", "final", ""),
                     ("cost", "latest", ""), ("cost", "latest", "2.25"), ("size", "latest", "9"),
                     ("size", "latest", "")]
    modes = dict(re.findall(r'<tr data-fact="([\w.]+)" data-mode="(\w+)"', text))
    assert modes == {"result": "maximize", "metrics.cost": "minimize"}
    assert re.search(r'<tr data-fact="result"[^>]*><th scope="row">gain</th>', text)
    assert "★ front" not in text
    assert '<tr data-fact="front"' in text
    assert re.findall(r'<option value="(\w*)">(\w+)</option>', text) == [
        ("", "gain"), ("cost", "cost"), ("size", "size"), ("of_others", "of_others")]


def test_at_most_twenty_are_compared_and_the_page_says_so(page: Callable[..., str], make_attempt: Make,
                                                          three: Experiment) -> None:
    for _ in range(19):
        make_attempt(three)
    text = page(three, "compare", trials=",".join(str(number) for number in range(22)))
    assert len(compared(text)) == 20
    assert "2 more that were chosen are not here" in text


def test_without_trials_the_page_says_how_to_choose(page: Callable[..., str], three: Experiment) -> None:
    text = page(three, "compare")
    assert "No trial is chosen" in text
    best = ",".join(Trial.objects.order_by("final_number").values_list("public_id", flat=True))
    assert f"?trials={best}" in text, "less is better"


def test_usual_columns_are_hidden_by_name(page, make_experiment) -> None:
    """A hundred columns less one are one name in the address, not ninety-nine."""
    experiment = make_experiment(search_space={f"p{n:03}": {"_type": "uniform", "_value": [0, 1]} for n in range(100)})
    usual, less = headings(page(experiment, "trials")), headings(page(experiment, "trials", without="parameters.p042"))
    assert [name for name in usual if name not in less] == ["p042"]
    assert headings(page(experiment, "trials", without="parameters.p042", columns="status")) != less
