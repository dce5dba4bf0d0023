"""Quotas as such: who may start how much, whose turn it is, and when an experiment is one too many."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from nniweb.experiments.actions import change_and_undo, intents
from nniweb.experiments.errors import Refused
from nniweb.experiments.models import Attempt, Cluster, Experiment, Quota, Trial, User
from nniweb.experiments.quotas.launch_quotas import why_not_so_many_gpus, why_not_this_priority
from nniweb.experiments.quotas.quota_limits import Holder, Limits
from nniweb.experiments.quotas.starting_trials import holders_under_way, room_for
from trainingservice.polling.fair_queue import FairQueue

CLUSTER = Cluster(pk=7, name="farm", max_trials=None)


def holder(pk: int, *, owner: int | None = 1, group: int | None = None, gpus: int = 0, under_way: int = 0) -> Holder:
    return Holder(pk, owner, group, CLUSTER.pk, gpus, under_way=under_way)


def by_pk(*holders: Holder) -> dict[int, Holder]:
    return {one.pk: one for one in holders}


def limits(*quotas: Quota, max_trials: int | None = None) -> Limits:
    return Limits(quotas, Cluster(pk=CLUSTER.pk, name="farm", max_trials=max_trials))


def rest(**fields: int) -> Quota:
    """A quota for everybody."""
    return Quota(**fields)


def test_what_an_owner_has_anywhere_counts() -> None:
    mine, elsewhere = holder(1, under_way=1), Holder(2, 1, None, 8, 0, under_way=2)
    room = room_for(mine, 5, limits(rest(max_trials=4)), by_pk(mine, elsewhere, holder(3, owner=2, under_way=9)))
    assert room.count == 1
    assert room.reason.startswith("Waits for the quota that each person has: at most 4 trials at a time.")


def test_gpus_count_as_many_as_a_trial_asks_for_and_trials_without_go_on() -> None:
    quota = limits(rest(max_gpus=5))
    busy = holder(2, gpus=2, under_way=1)
    room = room_for(holder(1, gpus=2), 4, quota, by_pk(busy))
    assert (room.count, "at most 5 GPUs at a time. Each trial asks for 2 GPUs" in room.reason) == (1, True)
    assert room_for(holder(3), 4, quota, by_pk(busy)).count == 4
    assert "it can never start" in room_for(holder(4, gpus=6), 1, quota, {}).reason


def test_the_experiment_with_the_fewest_trials_goes_first() -> None:
    many, few, none = holder(1, under_way=4), holder(2, under_way=1), holder(3)
    under_way, pending = by_pk(many, few), {2: (few, 5), 3: (none, 5)}
    cluster = limits(max_trials=9)  # room for four more
    assert room_for(many, 5, cluster, under_way, pending).count == 0
    assert room_for(few, 5, cluster, under_way, pending).count == 2
    assert room_for(none, 5, cluster, under_way, pending).count == 2
    assert "the limit of the cluster farm: at most 9 trials" in room_for(many, 5, cluster, under_way, pending).reason


def test_who_may_not_start_for_another_reason_takes_nobody_s_turn() -> None:
    mine, barred = holder(1, owner=1, under_way=3), holder(2, owner=2)
    quotas = limits(Quota(user=User(pk=2, username="barred"), max_trials=0), max_trials=4)
    assert room_for(mine, 2, quotas, by_pk(mine), {2: (barred, 5)}).count == 1


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=2, max_size=5), st.integers(0, 20),
       st.randoms(use_true_random=False))
def test_whoever_asks_in_whatever_order_the_limit_holds_and_the_last_room_is_used(
        experiments: list[tuple[int, int]], most: int, order: random.Random) -> None:
    """What each round grants, one experiment after another, as the worker does it."""
    under_way = {pk: holder(pk, under_way=number) for pk, (number, _) in enumerate(experiments)}
    wants = {pk: want for pk, (_, want) in enumerate(experiments)}
    before = sum(one.under_way for one in under_way.values())
    cluster = limits(max_trials=most)
    for _ in range(len(experiments)):
        for pk in order.sample(sorted(wants), len(wants)):
            pending = {other: (under_way[other], want) for other, want in wants.items() if want}
            count = room_for(under_way[pk], wants[pk], cluster, under_way, pending).count
            under_way[pk] = holder(pk, under_way=under_way[pk].under_way + count)
            wants[pk] -= count
    now = sum(one.under_way for one in under_way.values())
    assert now == max(before, min(most, before + sum(want for _, want in experiments)))
    starved = [pk for pk, want in wants.items() if want]
    for pk in starved:  # nobody who was given some has more than one that still waits
        assert all(under_way[other].under_way <= max(under_way[pk].under_way + 1, experiments[other][0])
                   for other in under_way)


def test_of_several_experiments_in_a_queue_the_one_with_the_fewest_jobs_is_tried_first() -> None:
    turns: FairQueue[str] = FairQueue(["a", "a", "b"])
    for name in ("a1", "a2", "b1", "b2", "c1", "c2", "c3"):
        turns.add(name[0], name)
    tried = []
    while (job := turns.next()) is not None:
        tried.append(job)
        if job != "c2":  # for it there is no room
            turns.started(job[0])
    assert tried == ["c1", "b1", "c2", "c3", "a1", "b2", "a2"]


# --- in the database -----------------------------------------------------------------------


@pytest.fixture
def group(db) -> Group:
    return Group.objects.create(name="vision")


def test_what_is_under_way_is_found_by_one_query_that_does_not_look_at_what_has_ended(make_attempt, make_experiment,
                                                                                      admin) -> None:
    experiment = make_experiment(gpus_of_a_trial=2)
    for _ in range(3):
        make_attempt(experiment)
    Attempt.objects.filter(pk=make_attempt(experiment).pk).update(stage=Attempt.Stage.ENDED)
    with CaptureQueriesContext(connection) as queries:
        found = holders_under_way()
    assert found == {experiment.pk: Holder(experiment.pk, admin.pk, None, experiment.cluster_id, 2, under_way=3)}
    assert len(queries) == 1
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN QUERY PLAN {queries[0]['sql']}")
            plan = [row[3] for row in cursor.fetchall()]
        assert any("USING INDEX attempts_unfinished" in step for step in plan), plan
        assert not any(step.startswith("SCAN") and "attempts_unfinished" not in step for step in plan), plan


@pytest.mark.parametrize(("before", "after"), [(8, 1), (1, 8)])
def test_running_trials_count_with_the_gpus_that_they_were_given_whatever_their_experiment_asks_for_since(
        make_attempt, make_experiment, admin, before: int, after: int) -> None:
    experiment = make_experiment(gpus_of_a_trial=before, trial_gpu_number=before)
    for _ in range(2):
        make_attempt(experiment)
    asks_for = {"name": experiment.cluster.name, "trialGpuNumber": after}
    change_and_undo.change(experiment, {"clusters": [asks_for]}, admin)
    make_attempt(Experiment.objects.get(pk=experiment.pk))
    under_way = holders_under_way()
    [limit] = limits(Quota(user=admin, max_gpus=16)).concerning(under_way[experiment.pk])
    assert limit.used_by(under_way[experiment.pk]) == 2 * before + after


def test_one_experiment_too_many_is_refused_however_it_would_go_on(make_experiment, admin, group) -> None:
    Quota.objects.create(user=admin, max_experiments=1)
    ended = make_experiment(status="STOPPED", target="STOP", ended_at=timezone.now())
    make_experiment()
    for go_on in (lambda: intents.resume(ended), lambda: intents.rerun_failed(ended)):
        if go_on.__code__.co_names[-1] == "rerun_failed":
            Experiment.objects.filter(pk=ended.pk).update(status="DONE", target="RUN")
            Trial.objects.create(experiment=ended, sequence_id=0, status="FAILED", created_at=timezone.now())
        ended.refresh_from_db()
        with pytest.raises(Refused, match="The quota of ada allows 1 experiment at a time, and 1 has not ended"):
            go_on()
    Quota.objects.create(group=group, max_experiments=0)
    running = Experiment.objects.unfinished().get()
    with pytest.raises(Refused, match="The quota of the group vision allows 0 experiments"):
        intents.share(running, group)
    busy = User.objects.create_user("bob")
    Quota.objects.create(user=busy, max_experiments=0)
    with pytest.raises(Refused, match="The quota of bob allows 0 experiments"):
        intents.hand_over(running, busy)
    intents.hand_over(ended, busy)


def test_a_launch_holds_quotas_in_the_order_of_their_keys_as_whoever_starts_trials_does(admin: User) -> None:
    Quota.objects.create(user=admin, max_gpus=1)
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        why_not_so_many_gpus(admin, None, 1)
    [sql] = [query["sql"] for query in asked if 'FROM "experiments_quota"' in query["sql"]]
    assert 'ORDER BY "experiments_quota"."id" ASC' in sql, "else each waits for the other on PostgreSQL"


def test_a_priority_that_a_group_allows_is_not_taken_out_of_the_group_but_by_administrators(
        make_experiment, admin, group) -> None:
    member, cautious = User.objects.create_user("bob"), Group.objects.create(name="cautious")
    Quota.objects.create(group=group, max_priority=50)
    Quota.objects.create(group=cautious, max_priority=5)
    experiment = make_experiment(owner=member, group=group, priority=50)
    for other, most in ((None, 0), (cautious, 5)):
        with pytest.raises(Refused, match=f"You may use priorities up to {most}, not 50"):
            intents.share(experiment, other, member)
    change_and_undo.change(experiment, {"priority": 0}, member)
    intents.share(experiment, None, member)
    Experiment.objects.filter(pk=experiment.pk).update(priority=50)
    intents.share(experiment, cautious, admin)


def test_the_own_quota_counts_before_that_of_everybody_else(admin, group) -> None:
    Quota.objects.create(max_gpus=1)
    assert "allows 1 GPU at a time, but one trial asks for 2" in why_not_so_many_gpus(admin, None, 2)
    Quota.objects.create(user=admin, max_gpus=4)
    assert why_not_so_many_gpus(admin, group, 2) == ""
    Quota.objects.create(group=group, max_gpus=1)
    assert "of the group vision allows 1 GPU" in why_not_so_many_gpus(admin, group, 2)


def test_there_is_one_quota_for_everybody_else_and_none_of_a_user_and_a_group(admin, group) -> None:
    Quota.objects.create(max_trials=1)
    with pytest.raises(ValidationError, match="a quota for everybody else already"):
        Quota(max_trials=2).full_clean()
    with pytest.raises(ValidationError, match="of a user or of a group, not of both"):
        Quota(user=admin, group=group).full_clean()


def test_a_priority_above_zero_needs_a_quota_that_allows_it(admin: User) -> None:
    member = User.objects.create_user("bob")
    assert why_not_this_priority(member, None, 0) == why_not_this_priority(member, None, -100) == ""
    assert why_not_this_priority(admin, None, 100) == ""
    assert why_not_this_priority(member, None, 1).startswith("You may use priorities up to 0, not 1.")
    Quota.objects.create(max_priority=5)
    assert why_not_this_priority(member, None, 5) == ""
    assert why_not_this_priority(member, None, 6).startswith("You may use priorities up to 5, not 6.")
    Quota.objects.create(user=member)  # an own one counts in place of that for everybody
    assert why_not_this_priority(member, None, 5) != ""


def test_the_priority_of_an_experiment_of_a_group_keeps_to_the_quotas_of_both(group: Group) -> None:
    member = User.objects.create_user("bob")
    of_group = Quota.objects.create(group=group, max_trials=9)
    assert why_not_this_priority(member, group, 1) != "", "it says nothing of priorities"
    Quota.objects.filter(pk=of_group.pk).update(max_priority=2)
    assert why_not_this_priority(member, group, 2) == "", "a group's quota is enough"
    Quota.objects.create(user=member, max_priority=5)
    assert why_not_this_priority(member, None, 5) == ""
    assert why_not_this_priority(member, group, 5).startswith("You may use priorities up to 2, not 5.")


def test_a_quota_may_ask_for_a_priority_below_zero(admin: User) -> None:
    assert why_not_this_priority(admin, None, 0) == ""
    member = User.objects.create_user("bob")
    Quota.objects.create(user=member, max_priority=-5)
    assert why_not_this_priority(member, None, -5) == ""
    assert why_not_this_priority(member, None, 0).startswith("You may use priorities up to -5, not 0.")


def test_a_higher_priority_goes_first_however_much_it_has_under_way(make_experiment: Any) -> None:
    Cluster.objects.update_or_create(name="local", platform="local", defaults={"max_trials": 10})
    experiment = make_experiment()
    limits = Limits.now(experiment.cluster)
    low, high = (Holder(pk, None, None, experiment.cluster_id, 0, priority, under_way)
                 for pk, priority, under_way in ((1, 0, 0), (2, 1, 6)))
    under_way = {low.pk: low, high.pk: high}
    assert room_for(low, 4, limits, under_way, {high.pk: (high, 3)}).count == 1
    assert room_for(high, 3, limits, under_way, {low.pk: (low, 4)}).count == 3


def test_jobs_of_a_higher_priority_are_tried_first() -> None:
    turns: FairQueue[str] = FairQueue(["high"])
    turns.add("low", "first")
    turns.add("high", "second", 5)
    assert [turns.next(), turns.next(), turns.next()] == ["second", "first", None]
