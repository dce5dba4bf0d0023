"""The list of experiments: what each row says, filters in the address, no query more for more rows."""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from nniweb.dashboard.home.segments import segments, words
from nniweb.experiments.models import Attempt, Cluster, Experiment, Machine, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.pubsub.revisions import next_revision
from tests.nniweb.dashboard.test_page_words import in_node

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]


def fill(make_experiment: Make, make_attempt: MakeAttempt, count: int, **fields: object) -> None:
    for number in range(count):
        experiment = make_experiment(name=f"number {number}", tags=["a", f"t{number}"], **fields)
        for value in (0.5, 0.25):
            make_attempt(experiment, status="SUCCEEDED", final_number=value, final_value=str(value))


def test_more_rows_take_no_more_queries(queries, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    fill(make_experiment, make_attempt, 1)
    queries("/")
    few = queries("/")
    fill(make_experiment, make_attempt, 20)
    assert queries("/") == few <= 27


def test_where_none_needs_attention_trials_are_looked_at_once(queries, page: Page, make_experiment: Make,
                                                              make_attempt: MakeAttempt) -> None:
    fill(make_experiment, make_attempt, 2, status="DONE")
    queries("/")
    calm = queries("/")
    failed = make_experiment(name="all of it failed", status="DONE")
    make_attempt(failed, status="FAILED")
    assert "All of its trials failed." in page("/")
    assert queries("/") == calm + 1


def test_more_rows_of_a_group_take_a_member_no_more_queries(make_experiment: Make, make_attempt: MakeAttempt,
                                                            django_assert_max_num_queries) -> None:
    group = Group.objects.create(name="vision")
    member = User.objects.create_user("bob", role=Role.MEMBER)
    member.groups.add(group)
    fill(make_experiment, make_attempt, 20, group=group)
    client = Client()
    client.force_login(member)
    with django_assert_max_num_queries(28):
        page = client.get("/").content.decode()
    assert page.count('data-action="archive"') == 20


def test_a_row_has_one_bar_with_a_piece_for_each_way_to_end(page: Page, make_experiment: Make,
                                                            make_attempt: MakeAttempt) -> None:
    experiment = make_experiment(max_trial_number=4, max_duration=100.0, running_seconds=25.0)
    make_attempt(experiment, status="SUCCEEDED", final_number=0.5, final_value="0.5")
    make_attempt(experiment, status="FAILED")
    html = page("/")
    assert 'aria-label="1 succeeded, 1 failed, of 4 trials"' in html
    assert '<rect class="SUCCEEDED" x="0.0" width="25.0" height="8">' in html
    assert '<rect class="FAILED" x="25.0" width="25.0" height="8">' in html
    assert "2 / 4" in html
    assert "25 s of 1 min 40 s" in html


CASES: list[tuple[dict[str, int], int | None]] = [
    ({"SUCCEEDED": 12, "FAILED": 2, "RUNNING": 2, "WAITING": 1, "EARLY_STOPPED": 3}, 50), ({}, None), ({}, 10),
    ({"SUCCEEDED": 9999, "USER_CANCELED": 1, "SYS_CANCELED": 2, "FAILED": 1, "UNKNOWN": 1}, None), ({"FAILED": 12}, 10)]


def test_the_script_draws_the_same_bar(tmp_path: Path) -> None:
    drawn, said = in_node(tmp_path, "ui/segments.js", "segments, segmentWords", (
        f"[{json.dumps(CASES)}.map(([counts, limit]) => segments(counts, limit)), "
        f"{json.dumps(CASES)}.map(([counts, limit]) => segmentWords(counts, limit))]"))
    assert drawn == [[asdict(one) for one in segments(*case)] for case in CASES]
    assert said == [words(*case) for case in CASES]
    assert all(one["start"] + one["width"] <= 100.01 for case in drawn for one in case)


def test_the_parts_of_the_list_lead_to_a_filter_that_keeps_the_others(page: Page, make_experiment: Make,
                                                                      make_attempt: MakeAttempt) -> None:
    make_experiment(name="apple")
    make_experiment(name="pear", status="DONE")
    make_attempt(make_experiment(name="grape", status="DONE"), status="FAILED")
    ill = make_experiment(name="banana")
    Cluster.objects.filter(pk=ill.cluster_id).update(health="good")
    html = page("/", q="a")
    assert 'href="?q=a&amp;state=done"' in html
    html = page("/", q="a", state="done")
    assert ("pear</a>" in html, "apple</a>" in html) == (True, False)
    assert 'href="?q=a" aria-current="true"' in html, "clicked again, it shows all"

    def named(**query: str) -> set[str]:
        listed = page("/", **query).partition('id="experiments"')[2]
        return {name for name in ("apple", "pear", "grape", "banana") if f">{name}</a>" in listed}

    assert named(state="running") == {"apple", "banana"}
    assert named(state="attention") == {"grape"}
    Cluster.objects.filter(pk=ill.cluster_id).update(health="degraded", message="gpu2 cannot be reached.")
    assert {"grape", "banana"} <= named(state="attention")
    assert "Needs attention <b>" in page("/")


def test_the_strip_says_what_runs_and_what_needs_attention(page: Page, make_experiment: Make,
                                                           make_attempt: MakeAttempt) -> None:
    failed = make_experiment(name="wreck", status="DONE")
    make_attempt(failed, status="FAILED")
    going = make_experiment(name="going")
    make_attempt(going, status="RUNNING")
    Machine.objects.create(cluster=going.cluster, name="m", identity="m", healthy=True, gpu_summary=[
        {"index": 0, "name": "H100", "processes": 2}, {"index": 1, "name": "H100", "processes": 0}])
    Cluster.objects.filter(pk=going.cluster_id).update(health="degraded", message="gpu2 cannot be reached.")
    html = page("/")
    strip = html[html.index('id="now"'):html.index("</section>")]
    assert "<b>1</b> trial on 1 cluster" in strip
    assert "<b>1</b> of 2" in strip
    assert "gpu2 cannot be reached." in strip
    assert f'<a href="/experiments/{failed.public_id}/">wreck</a>' in strip
    assert "All of its trials failed." in strip


def test_the_one_search_box_finds_owners_clusters_and_tags(page: Page, make_experiment: Make) -> None:
    zoe = User.objects.create_user("zoe")
    make_experiment(name="by-zoe", owner=zoe)
    make_experiment(name="tagged", tags=["vision"])
    for text, name in (("zo", "by-zoe"), ("vision", "tagged")):
        html = page("/", q=text).partition('id="experiments"')[2]
        assert [one for one in ("by-zoe", "tagged") if f">{one}</a>" in html] == [name]


def test_there_is_one_primary_button(page: Page, make_experiment: Make) -> None:
    make_experiment()
    html = page("/")
    assert html.count('class="button primary"') == 1
    assert 'class="button primary" href="/new/">New experiment</a>' in html
    assert html.count('type="search"') == 1


def test_links_leave_out_what_was_not_understood(page: Page, make_experiment: Make, monkeypatch: pytest.MonkeyPatch
                                                 ) -> None:
    monkeypatch.setattr("nniweb.dashboard.home.experiment_list.EXPERIMENTS_PER_PAGE", 1)
    for name in ("a&b", "a&b again"):
        make_experiment(name=name)
    html = page("/", q="a&b", status="NONSENSE", order="sideways", utm_source="mail", page=2)
    for link in ("?q=a%26b&amp;page=1", "?q=a%26b&amp;order=name", "?q=a%26b&amp;state=running"):
        assert f'href="{link}"' in html
    assert not {word for word in ("NONSENSE", "sideways", "utm_source") if word in html}


@pytest.mark.parametrize(("order", "expected"), [
    ("changed", ["old", "new"]), ("-changed", ["new", "old"]), ("owner", ["new", "old"]), ("-name", ["old", "new"])])
def test_it_is_sorted_by_what_the_address_says(page: Page, make_experiment: Make, admin: User, order, expected) -> None:
    zoe = User.objects.create_user("zoe")
    # the one that was made last has changed first
    make_experiment(name="new", changed_at=timezone.now())
    make_experiment(name="old", owner=zoe, changed_at=timezone.now() - timedelta(days=1))
    html = page("/", order=order)
    assert sorted(["old", "new"], key=lambda name: html.index(f">{name}</a>")) == expected


def test_every_change_of_an_experiment_moves_its_last_change(make_experiment: Make) -> None:
    experiment = make_experiment()
    before = timezone.now()
    next_revision(experiment.pk)
    experiment.refresh_from_db()
    assert experiment.changed_at is not None
    assert experiment.changed_at >= before


def test_tags_are_offered_and_lead_to_their_filter(page: Page, make_experiment: Make) -> None:
    make_experiment(name="tagged", tags=["fast & loose"])
    make_experiment(name="other")
    html = page("/")
    assert '<option value="fast &amp; loose">' in html
    assert 'href="/?tag=fast%20%26%20loose"' in html
    html = page("/", tag="fast & loose")
    assert "tagged</a>" in html
    assert "other</a>" not in html


def test_where_all_are_archived_the_list_says_so(page: Page, make_experiment: Make) -> None:
    make_experiment(name="put away", archived=True)
    html = page("/")
    assert "All experiments are archived." in html
    assert '<a href="?archived=true">' in html
    assert "No experiment matches this filter." not in html
    assert "put away</a>" in page("/", archived="true")
    html = page("/", q="something else")
    assert "No experiment matches this filter." in html
    assert "All experiments are archived." not in html


def test_a_viewer_is_offered_nothing_to_press(make_experiment: Make, db: None) -> None:
    viewer = User.objects.create_user("vera", role=Role.VIEWER)
    client = Client()
    client.force_login(viewer)
    html = client.get("/").content.decode()
    assert "Launch the example" not in html
    assert "No experiment was launched yet that you may see." in html
    assert "to put you into a group whose experiments you see" in html
    make_experiment(owner=viewer, status="DONE")
    html = client.get("/").content.decode()
    assert "data-action" not in html
    assert "data-editable" not in html


def test_an_empty_installation_says_to_each_what_to_do_next(admin: User) -> None:
    member = User.objects.create_user("max", role=Role.MEMBER)

    def front(user: User) -> str:
        client = Client()
        client.force_login(user)
        return client.get("/").content.decode()

    html = front(admin)
    for offer in ("Launch the example", "a new experiment", "add a cluster", "people", "create a token"):
        assert offer in html, offer
    html = front(member)
    assert "there is no cluster yet on which your trials may run" in html
    assert "Ask an administrator (ada) to add a cluster" in html
    for offer in ("Launch the example", "add a cluster</a>", "a new experiment</a>"):
        assert offer not in html, f"{offer}: it would be refused"
    Cluster.objects.create(name="here", platform="local")
    assert "there is no cluster yet" in front(member), "the right to run trials here is missing"
    Cluster.objects.create(name="lab", platform="remote")
    html = front(member)
    assert "You can launch experiments on lab" in html
    assert "Launch the example" not in html
    member.local_users = "*"
    member.save()
    assert "Launch the example" in front(member)


def test_whoever_comes_to_the_demo_by_a_link_gets_the_list(admin: User) -> None:
    client = Client()
    client.force_login(admin)
    answer = client.get("/demo/")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert not Experiment.objects.exists()
