"""The list of experiments: what each row says, filters in the address, no query more for more rows."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from nniweb.experiments.models import Attempt, Experiment, User
from nniweb.experiments.models.account import Role
from nniweb.experiments.pubsub.revisions import next_revision

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
    assert queries("/") == few <= 22


def test_more_rows_of_a_group_take_a_member_no_more_queries(make_experiment: Make, make_attempt: MakeAttempt,
                                                            django_assert_max_num_queries) -> None:
    group = Group.objects.create(name="vision")
    member = User.objects.create_user("bob", role=Role.MEMBER)
    member.groups.add(group)
    fill(make_experiment, make_attempt, 20, group=group)
    client = Client()
    client.force_login(member)
    with django_assert_max_num_queries(23):
        page = client.get("/").content.decode()
    assert page.count('data-action="delete"') == 20


def test_a_row_has_bars_for_trials_and_time(page: Page, make_experiment: Make, make_attempt: MakeAttempt) -> None:
    experiment = make_experiment(max_trial_number=4, max_duration=100.0, running_seconds=25.0)
    make_attempt(experiment, status="SUCCEEDED", final_number=0.5, final_value="0.5")
    html = page("/")
    assert '<progress max="1" value="0.25" data-cell="trials-bar"' in html
    assert '<progress max="1" value="0.25" data-cell="time-bar"' in html
    assert "1 / 4" in html
    assert "25 s of 1 min 40 s" in html


def test_counts_lead_to_a_filter_that_keeps_the_others(page: Page, make_experiment: Make) -> None:
    make_experiment(name="apple")
    make_experiment(name="pear", status="DONE")
    html = page("/", q="a")
    assert 'href="?q=a&amp;status=DONE"' in html
    html = page("/", q="a", status="DONE")
    assert "pear</a>" in html
    assert "apple</a>" not in html
    assert 'href="?q=a" aria-current="true"' in html, "clicked again, it shows every status"


def test_links_leave_out_what_was_not_understood(page: Page, make_experiment: Make, monkeypatch: pytest.MonkeyPatch
                                                 ) -> None:
    monkeypatch.setattr("nniweb.dashboard.experiment_list.EXPERIMENTS_PER_PAGE", 1)
    for name in ("a&b", "a&b again"):
        make_experiment(name=name)
    html = page("/", q="a&b", status="NONSENSE", order="sideways", utm_source="mail", page=2)
    for link in ("?q=a%26b&amp;page=1", "?q=a%26b&amp;order=name", "?q=a%26b&amp;status=RUNNING"):
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


def test_a_viewer_is_offered_nothing_to_press(make_experiment: Make, db: None) -> None:
    viewer = User.objects.create_user("vera", role=Role.VIEWER)
    client = Client()
    client.force_login(viewer)
    html = client.get("/").content.decode()
    assert "Launch the example" not in html
    assert "There is no experiment that you may see." in html
    make_experiment(owner=viewer, status="DONE")
    html = client.get("/").content.decode()
    assert "data-action" not in html
    assert "data-editable" not in html


def test_whoever_comes_to_the_demo_by_a_link_gets_the_list(admin: User) -> None:
    client = Client()
    client.force_login(admin)
    answer = client.get("/demo/")
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert not Experiment.objects.exists()
