"""Pages of an experiment on several clusters: what runs on each, where a trial ran, and why not elsewhere."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from nniweb.dashboard.clusters import unfinished_trials
from nniweb.experiments.charts.timeline import timeline_of
from nniweb.experiments.models import Attempt, Cluster, Experiment, ExperimentCluster, Trial
from trainingservice.reasons import Reason, as_document


@pytest.fixture
def experiment(make_experiment: Callable[..., Experiment]) -> Experiment:
    """Trial 0 runs on the cluster cloud, trial 1 on the home, and trial 2 waits for a place."""
    found = make_experiment(several_clusters=True)
    cloud = Cluster.objects.create(name="cloud", platform="local")
    for position, cluster in enumerate((found.cluster, cloud)):
        ExperimentCluster.objects.create(experiment=found, cluster=cluster, position=position, up_to=1, cost=2.0 if
                                         position else None)
    now = timezone.now()
    waits = Reason("clusters_full", clusters=[{"cluster": "local", "code": "at_most_there", "most": 1},
                                              {"cluster": "cloud", "code": "no_worker_there"}])
    for number, cluster in ((0, cloud), (1, found.cluster), (2, None)):
        trial = Trial.objects.create(
            experiment=found, sequence_id=number, created_at=now, status="RUNNING" if cluster else "WAITING",
            started_at=now - timedelta(hours=1) if cluster else None, message="" if cluster else str(waits),
            reason="" if cluster else waits.code, reason_arguments={} if cluster else waits.arguments)
        if cluster is not None:
            Attempt.objects.create(
                trial=trial, job_name=f"job{number}", cluster=cluster, stage="submitted", created_at=now,
                started_at=now - timedelta(hours=1), machine_name="box", placement=as_document(Reason(
                    "chosen", clusters=[{"cluster": "other", "code": "drained"}])))
    return found


def test_the_overview_says_what_runs_on_each_cluster_and_what_it_cost(page: Callable[[str], str],
                                                                      experiment: Experiment) -> None:
    text = page(f"/experiments/{experiment.public_id}/")
    assert 'data-cluster="cloud"' in text
    assert "no worker drives it" in text
    assert '<td class="number" data-cell="spent" data-label="Cost">2.00</td>' in text
    assert "2 clusters" in text


@pytest.mark.parametrize(("fields", "said"), [
    ({"is_drained": True}, "drained, so it gets no new trials."),
    ({"weight": 0}, "has weight 0, so it gets no new trials."),
    ({"weight": 0, "is_drained": True}, "drained, so it gets no new trials."),
    ({"is_listed": False, "is_drained": True}, "was taken out of the experiment&#x27;s list, so it gets no new "
                                               "trials.")])
def test_the_overview_says_by_what_a_cluster_gets_no_trials(page: Callable[[str], str], experiment: Experiment,
                                                            fields: dict[str, float], said: str) -> None:
    ExperimentCluster.objects.filter(experiment=experiment, cluster__name="cloud").update(**fields)
    text = page(f"/experiments/{experiment.public_id}/")
    assert f'data-cell="message" data-label="Why it gets no trials">{said}</td>' in text


def test_cells_of_the_table_of_clusters_name_their_column(page: Callable[[str], str], experiment: Experiment) -> None:
    """On a phone the table has no line of headings."""
    text = page(f"/experiments/{experiment.public_id}/")
    row = text[text.index('data-cluster="cloud"'):]
    row = row[:row.index("</tr>")]
    assert re.findall('data-label="([^"]*)"', row) == [
        "Running", "Waiting", "Ended", "Up to", "Weight", "Hours", "Cost", "Why it gets no trials"]


def test_a_trials_page_says_where_it_was_placed_and_what_the_others_said(page: Callable[[str], str],
                                                                         experiment: Experiment) -> None:
    first = Trial.objects.get(sequence_id=0)
    text = page(f"/trials/{first.public_id}/")
    assert "Placed on cloud. The other clusters: other: drained, so it gets no new trials." in text
    assert "on cloud" in text
    waiting = page(f"/trials/{Trial.objects.get(sequence_id=2).public_id}/")
    assert "local: has 1 trial, as many as upTo allows; cloud: no worker drives it." in waiting


def test_the_table_of_trials_has_a_column_for_the_cluster(page: Callable[[str], str], experiment: Experiment) -> None:
    text = page(f"/experiments/{experiment.public_id}/trials/")
    assert '<td class="small" data-cell="cluster">cloud</td>' in text


def test_rows_of_the_timeline_are_grouped_by_cluster(experiment: Experiment) -> None:
    found = timeline_of(experiment, timezone.now(), width=800)
    assert [row.machine for row in found.rows] == ["cloud: box", "local: box"]


@pytest.mark.usefixtures("experiment")
def test_pages_of_clusters_count_the_trials_that_lie_there() -> None:
    clusters = {cluster.name: cluster for cluster in Cluster.objects.all()}
    counts = unfinished_trials(clusters.values())
    assert counts[clusters["cloud"].pk] == {"RUNNING": 1}
    assert counts[clusters["local"].pk] == {"RUNNING": 1, "WAITING": 1}
