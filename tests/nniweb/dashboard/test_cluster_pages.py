"""The clusters' pages: GPUs and whose trial holds them, why trials wait, what the last rehearsal found."""

from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from nniweb.experiments.clusters.rehearsal import rehearse
from nniweb.experiments.models import Attempt, Cluster, Experiment, Machine, User
from nniweb.experiments.models.account import Role
from trainingservice import platforms
from trainingservice.testing.misbehaving import DocileTrainingService

Make = Callable[..., Experiment]
MakeAttempt = Callable[..., Attempt]
Page = Callable[..., str]


def gpu(index: int, **more: object) -> dict[str, object]:
    return {"index": index, "name": "H0", "utilization": 50, "memory_used": 1, "memory_total": 2, "processes": 0,
            **more}


@pytest.fixture
def cluster(make_experiment: Make) -> Cluster:
    return make_experiment().cluster


def add_machine(cluster: Cluster, name: str, gpus: list[dict[str, object]], **more: object) -> Machine:
    return Machine.objects.create(cluster=cluster, name=name, identity=name, gpu_summary=gpus, seen_at=timezone.now(),
                                  **more)


def hold(attempt: Attempt, machine: str, *indices: int) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(machine_identity=machine, gpu_indices=list(indices))


def test_more_machines_and_trials_take_no_more_queries(queries, cluster: Cluster, make_attempt: MakeAttempt) -> None:
    experiment = Experiment.objects.get()

    def more(count: int) -> None:
        for _ in range(count):
            name = f"box-{Machine.objects.count()}"
            add_machine(cluster, name, [gpu(0)])
            hold(make_attempt(experiment, status="RUNNING"), name, 0)
            make_attempt(experiment, status="WAITING", message="no room")

    more(2)
    addresses = ("/clusters/", f"/clusters/{cluster.public_id}/")
    few = {address: (queries(address), queries(address))[1] for address in addresses}
    more(10)
    Cluster.objects.bulk_create(Cluster(name=f"other {number}", platform="local") for number in range(5))
    assert {address: queries(address) for address in addresses} == few
    assert max(few.values()) <= 18


def test_each_gpu_is_drawn_and_said(page: Page, cluster: Cluster, make_attempt: MakeAttempt) -> None:
    add_machine(cluster, "box", [gpu(0), gpu(1, processes=2), gpu(2, utilization=None)])
    hold(make_attempt(Experiment.objects.get(), status="RUNNING"), "box", 0)
    html = page("/clusters/")
    assert "GPU 0: held by a trial, 50 % busy; GPU 1: used by others, 50 % busy; GPU 2: free" in html
    assert "1 of 3 held" in html
    assert html.count("<rect class=\"frame\"") == 3


def test_a_machine_that_cannot_be_used_is_counted(page: Page, cluster: Cluster) -> None:
    add_machine(cluster, "good", [])
    add_machine(cluster, "bad", [], healthy=False, message="no disk")
    html = page("/clusters/")
    assert "1 of 2</span>" in html
    assert "no disk" in html, "the card names the machine"


def load(cpu_used: float, cpu_total: float, gigabytes_used: int, gigabytes_total: int) -> dict[str, float | int]:
    return {"cpu_used": cpu_used, "cpu_total": cpu_total, "memory_used": gigabytes_used * 1024**3,
            "memory_total": gigabytes_total * 1024**3}


def test_a_card_has_bars_for_processors_and_memory_of_all_its_machines(page: Page, cluster: Cluster) -> None:
    add_machine(cluster, "one", [], load=load(1.5, 4, 2, 8))
    add_machine(cluster, "two", [], load=load(6, 8, 4, 24))
    html = page("/clusters/")
    assert '<progress max="12.0" value="7.5" aria-label="CPU"></progress> 7.5 of 12 cores' in html
    assert "6.0 GB of 32.0 GB" in html
    assert "machines</dd>" not in html
    of_one = page(f"/clusters/{cluster.public_id}/")
    assert "1.5 of 4 cores" in of_one
    assert "6.0 of 8 cores" in of_one


def test_a_card_says_of_how_many_machines_the_load_is_known(page: Page, cluster: Cluster) -> None:
    add_machine(cluster, "one", [], load=load(1.5, 4, 2, 8))
    add_machine(cluster, "two", [])
    assert "CPU and memory of 1 of 2 machines" in page("/clusters/")


def test_a_load_that_nobody_has_seen_for_minutes_is_not_shown(page: Page, cluster: Cluster) -> None:
    machine = add_machine(cluster, "one", [], load=load(1.5, 4, 2, 8))
    Machine.objects.update(seen_at=machine.seen_at - timedelta(minutes=4))
    html = page("/clusters/")
    assert 'aria-label="CPU"' not in html
    assert "CPU and memory" not in html


def test_a_card_has_bars_for_gpus_and_their_memory_and_says_whose_trials_run(
        page: Page, cluster: Cluster, make_attempt: MakeAttempt) -> None:
    add_machine(cluster, "box", [gpu(0, memory_used=3 * 1024**3, memory_total=4 * 1024**3),
                                 gpu(1, memory_used=0, memory_total=4 * 1024**3)])
    experiment = Experiment.objects.get()
    hold(make_attempt(experiment, status="RUNNING"), "box", 0)
    html = page("/clusters/")
    assert '<progress max="2" value="1" aria-label="GPUs held">' in html
    assert '<progress max="100" value="50" aria-label="GPUs busy">' in html
    assert "3.0 GB of 8.0 GB" in html
    assert f'data-fact="owners">{experiment.owner or "nobody"} 1</dd>' in html


@pytest.mark.parametrize(("ok", "folded"), [(True, True), (False, False)])
def test_a_test_that_passed_is_one_line_with_its_age(page: Page, cluster: Cluster, ok: bool, folded: bool) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(health="good", rehearsed_at=timezone.now(), rehearsal=[
        {"check": "connection", "ok": ok, "message": "It is so.", "machine": "", "temporary": False}])
    html = page(f"/clusters/{cluster.public_id}/")
    assert ('<details class="passed">' in html) == folded
    assert "<time data-relative" in html


@pytest.mark.parametrize(("ok", "temporary", "word"), [
    (True, False, "Good:"), (False, True, "Warning:"), (False, False, "Wrong:")])
def test_screen_readers_hear_of_what_weight_a_finding_is(page: Page, cluster: Cluster, ok: bool, temporary: bool,
                                                         word: str) -> None:
    """What only warns need not pass by itself, such as a module that is missing."""
    Cluster.objects.filter(pk=cluster.pk).update(health="good", rehearsed_at=timezone.now(), rehearsal=[
        {"check": "modules", "ok": ok, "message": "It is so.", "machine": "", "temporary": temporary}])
    assert f'<span class="visually-hidden">{word}</span> It is so.' in page(f"/clusters/{cluster.public_id}/")


def test_the_list_says_why_most_trials_wait(page: Page, cluster: Cluster, make_attempt: MakeAttempt) -> None:
    experiment = Experiment.objects.get()
    for message in ("no GPU is free", "no GPU is free", "the node is full"):
        make_attempt(experiment, status="WAITING", message=message)
    html = page("/clusters/")
    assert "no GPU is free" in html
    assert "the node is full" not in html


def test_why_others_wait_is_not_told(cluster: Cluster, make_attempt: MakeAttempt) -> None:
    make_attempt(Experiment.objects.get(), status="WAITING", message="the secret of Ada")
    stranger = User.objects.create_user("charlie", role=Role.MEMBER)
    client = Client()
    client.force_login(stranger)
    html = client.get("/clusters/").content.decode()
    assert "local" in html
    assert "the secret of Ada" not in html


def test_the_last_rehearsal_stays_on_the_page(page: Page, cluster: Cluster, admin: User) -> None:
    address = f"/clusters/{cluster.public_id}/"
    assert "Not tested yet" in page(address)
    findings = rehearse(cluster, admin)
    html = page(address)
    assert ("Last tested" in html) != ("Test passed" in html)
    assert findings
    for finding in findings:
        assert escape(finding.message) in html
    assert html.count('<span class="icon"') == len(findings)


class PinnedService(DocileTrainingService):
    platform: ClassVar[str] = "pinned"
    pinned_to_host: ClassVar[bool] = True


def test_it_is_said_whose_trials_a_cluster_takes(page: Page, vera: User) -> None:
    platforms.register("pinned", f"{__name__}:PinnedService")
    try:
        group = Group.objects.create(name="biology")
        for name, fields, people in (
                ("a plug-in's", {"platform": "pinned"}, "administrators, and people with local users"),
                ("a group's", {"platform": "pinned", "group": group},
                 "administrators, and those of the group biology who have local users"),
                ("here", {"platform": "local"}, "administrators, and people with local users"),
                ("elsewhere", {"platform": "remote"}, "everybody"),
                ("theirs", {"platform": "remote", "group": group}, "the group biology"),
                ("hers", {"platform": "remote", "is_private": True, "owner": vera}, "vera alone"),
                ("gone", {"platform": "no such one"}, "everybody")):
            cluster = Cluster.objects.create(name=name, **fields)
            assert f"<dd>{people}</dd>" in page(f"/clusters/{cluster.public_id}/"), name
            assert f'data-fact="access">{people}</dd>' in page("/clusters/"), name
            cluster.delete()
    finally:
        platforms.unregister("pinned")


@pytest.mark.parametrize(("health", "folded"), [("good", False), ("degraded", True), ("away", True), ("bad", True)])
def test_what_a_rehearsal_found_is_folded_away_while_the_cluster_is_in_trouble(page: Page, cluster: Cluster,
                                                                                health: str, folded: bool) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(health=health, message="box refuses connections.", rehearsal=[
        {"check": "connection", "ok": True, "message": "It answers.", "machine": "", "temporary": False}],
        rehearsed_at=timezone.now())
    html = page(f"/clusters/{cluster.public_id}/")
    assert "It answers." in html
    assert ('<details class="outdated">' in html) == folded


def test_a_gpu_that_does_not_work_is_shown_as_such(page: Page, cluster: Cluster) -> None:
    add_machine(cluster, "box", [gpu(0), gpu(1, fault="lost")])
    html = page(f"/clusters/{cluster.public_id}/")
    assert html.count("does not work</span>") == 1
    assert "GPU 1: does not work" in html + page("/clusters/")
