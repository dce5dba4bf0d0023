"""Where a trial of an experiment with several clusters runs, by tables of what the clusters say."""

from dataclasses import replace
from typing import Any

import pytest

from nniweb.experiments.clusters.placement import ClusterRoom, how_many, place
from trainingservice.reasons import Reason, code_of

LAB, SLURM, CLOUD = 1, 2, 3
NAMES = {LAB: "lab", SLURM: "slurm", CLOUD: "cloud"}
FULL: dict[str, Any] = {"room": 0, "why_full": Reason("at_most_there", most=4)}
AWAY: dict[str, Any] = {"why_not": Reason("unhealthy_there", said="It is away.")}


def rooms(**changed: dict[str, Any]) -> list[ClusterRoom]:
    return [replace(ClusterRoom(pk, name), **changed.get(name, {})) for pk, name in NAMES.items()]


IN_TURN: dict[str, dict[str, Any]] = {"slurm": {"after": (LAB,)}, "cloud": {"after": (SLURM,)}}


@pytest.mark.parametrize(("changed", "chosen", "others"), [
    ({}, "lab", {"slurm": "not_chosen", "cloud": "not_chosen"}),
    (IN_TURN, "lab", {"slurm": "goes_after", "cloud": "goes_after"}),
    ({**IN_TURN, "lab": FULL}, "slurm", {"lab": "at_most_there", "cloud": "goes_after"}),
    ({**IN_TURN, "lab": AWAY}, "slurm", {"lab": "unhealthy_there", "cloud": "goes_after"}),
    ({"lab": FULL, "slurm": {"after": (LAB,), **AWAY}, "cloud": {"after": (SLURM,)}}, "cloud",
     {"lab": "at_most_there", "slurm": "unhealthy_there"}),
    ({"slurm": {"after": (LAB,), **AWAY}, "cloud": {"after": (SLURM,)}}, "lab",
     {"slurm": "unhealthy_there", "cloud": "goes_after"}),
    ({"lab": {"cost": 2.0}, "slurm": {"cost": 0.5}, "cloud": {"cost": 3.0}}, "slurm",
     {"lab": "not_chosen", "cloud": "not_chosen"}),
    ({"lab": {"cost": 2.0}, "slurm": {"cost": 0.5, **FULL}, "cloud": {"cost": 3.0}}, "lab",
     {"slurm": "at_most_there", "cloud": "not_chosen"}),
    ({"lab": {"under_way": 5, "weight": 5.0}, "slurm": {"under_way": 2}, "cloud": {"under_way": 3, "weight": 2.0}},
     "lab", {"slurm": "not_chosen", "cloud": "not_chosen"}),
    ({"lab": {"is_failing": True}, "slurm": {"cost": 9.0}, "cloud": {"cost": 8.0}}, "cloud",
     {"lab": "not_chosen", "slurm": "not_chosen"}),
    ({"lab": {"is_failing": True}, "slurm": AWAY, "cloud": FULL}, "lab",
     {"slurm": "unhealthy_there", "cloud": "at_most_there"}),
    ({"slurm": {"has_code": True}}, "slurm", {"lab": "not_chosen", "cloud": "not_chosen"}),
    ({"lab": FULL, "slurm": AWAY, "cloud": {"why_not": Reason("drained")}}, None,
     {"lab": "at_most_there", "slurm": "unhealthy_there", "cloud": "drained"}),
])
def test_a_trial_runs_where_the_rules_say_and_each_other_cluster_says_why_not(
        changed: dict[str, dict[str, Any]], chosen: str | None, others: dict[str, str]) -> None:
    [placement] = place(rooms(**changed), [None])
    assert NAMES.get(placement.cluster or 0) == chosen
    assert {name: code_of(reason) for name, reason in placement.said.items()} == others


def test_what_decided_is_named() -> None:
    table = [({"lab": {"is_failing": True}}, "failures"), ({"lab": {"cost": 1.0}}, "cost"),
             ({"lab": {"under_way": 1}}, "weight"), ({"slurm": {"has_code": True}}, "code")]
    for changed, by in table:
        [placement] = place(rooms(cloud=AWAY, **changed), [None])
        assert placement.said["lab"].arguments == {"by": by, "chosen": "slurm"}, by  # type: ignore[attr-defined]
    [placement] = place(rooms(cloud=AWAY), [SLURM])
    assert placement.cluster == SLURM
    assert placement.said["lab"].arguments["by"] == "checkpoint"  # type: ignore[attr-defined]


def test_trials_fill_the_first_cluster_before_the_next_and_the_last_says_what_it_waits_for() -> None:
    some = rooms(lab={"room": 2, "why_full": Reason("at_most_there", most=2)},
                 slurm={"after": (LAB,), "room": 1, "why_full": Reason("at_most_there", most=1)},
                 cloud={"after": (SLURM,), "room": 1, "why_full": Reason("limit_there", most=1)})
    placements = place(some, [None] * 7)
    assert [one.cluster for one in placements] == [LAB, LAB, SLURM, CLOUD, None]
    assert placements[-1].reason.code == "clusters_full"
    assert str(placements[-1].reason) == (
        "Waits for room on one of its clusters. lab: has 2 trials, as many as upTo allows; slurm: has 1 trial, as many "
        "as upTo allows; cloud: has 1 trial of all experiments, as many as its limit allows.")
    assert [one["code"] for one in placements[-1].reason.arguments["clusters"]] == [
        "at_most_there", "at_most_there", "limit_there"]


def test_weights_share_the_trials_out() -> None:
    placements = place(rooms(lab={"weight": 4.0}, slurm={"weight": 2.0}), [None] * 14)
    counts = {pk: sum(one.cluster == pk for one in placements) for pk in NAMES}
    assert counts == {LAB: 8, SLURM: 4, CLOUD: 2}


def test_clusters_that_follow_each_other_in_a_circle_take_nothing_and_say_so() -> None:
    [placement] = place(rooms(lab={"after": (SLURM,)}, slurm={"after": (LAB,)}, cloud=AWAY), [None])
    assert placement.cluster is None
    assert {code_of(reason) for reason in placement.said.values()} == {"goes_after", "unhealthy_there"}


@pytest.mark.parametrize(("changed", "wanted", "count"), [
    ({}, 9, 9), (dict.fromkeys(("lab", "slurm", "cloud"), FULL), 9, 0), ({"lab": AWAY, "slurm": FULL}, 9, 9),
    ({"lab": {"room": 2}, "slurm": {"room": 3}, "cloud": AWAY}, 9, 5), ({"lab": {"room": 2}}, 1, 1)])
def test_how_many_more_fit(changed: dict[str, dict[str, Any]], wanted: int, count: int) -> None:
    assert how_many(rooms(**changed), wanted) == count


def test_a_thousand_trials_over_five_clusters_are_placed_with_the_counts_kept() -> None:
    many = [ClusterRoom(pk, f"c{pk}", room=200) for pk in range(1, 6)]
    placements = place(many, [None] * 1001)
    assert len(placements) == 1001
    assert placements[-1].cluster is None
    assert [one.under_way for one in many] == [200] * 5
