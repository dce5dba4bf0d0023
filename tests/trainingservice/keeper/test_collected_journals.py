"""Journals that the server fetches: for how long, and what is remembered of them."""

import json

import pytest

from trainingservice.errors import TemporaryError
from trainingservice.keeper import collected_journals
from trainingservice.keeper.collected_journals import LATE_FOR, CollectedJournals
from trainingservice.keeper.journal_delivery import Reply
from trainingservice.receiver.keeper_receiver import KeeperReceiver

HEADER = ("j", {"version": 1})
NOTE = {"experiment_id": "e", "token": "t", "report_interval": 1000.0}


class Source:
    """A journal that is not there yet, or has these entries."""

    def __init__(self):
        self.looks, self.entries, self.is_there = 0, [], False

    def read(self):
        self.looks += 1
        if not self.is_there:
            raise TemporaryError("The run history answers with HTTP 404.")
        entries, self.entries = self.entries, []
        return (*HEADER, entries)

    def acknowledge(self, number):
        """Nobody asks."""


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def collected(tmp_path, now, source, monkeypatch):
    monkeypatch.setattr(collected_journals, "deliver", lambda urls, job_name, token, keeper, entries, at: iter(
        [Reply(200, {"accepted": entries[-1]["n"] if entries else 0})]))
    return CollectedJournals(tmp_path, lambda: (), lambda experiment, name: source, lambda: now[0])


def expect(collected):
    collected._note("t1", NOTE)
    collected._add("t1", NOTE)
    return collected._jobs["t1"]


def look_each_second(collected, now, seconds):
    for _ in range(seconds):
        now[0] += 1.0
        for job in list(collected._jobs.values()):
            collected._look(job)


def test_a_job_that_ended_without_a_journal_is_asked_about_less_and_less_and_then_forgotten(
        collected, now, source, tmp_path):
    expect(collected)
    look_each_second(collected, now, 5)
    assert source.looks == 5
    collected.finish("t1")
    look_each_second(collected, now, int(LATE_FOR * 1.5))
    assert source.looks < 60
    assert collected._jobs == {}
    assert list(tmp_path.glob("*.json")) == [], "and nobody looks after the next start"


def test_what_comes_late_is_delivered(collected, now, source):
    expect(collected)
    collected.finish("t1")
    look_each_second(collected, now, 300)
    source.is_there = True
    source.entries = [{"n": 1, "at": 1.0, "type": "started"}, {"n": 2, "at": 1.0, "type": "ended", "reason": "exited"}]
    look_each_second(collected, now, 120)
    assert collected._jobs == {}, "its last entry was accepted"


def test_the_next_object_knows_which_jobs_have_ended(collected, now, source, tmp_path):
    expect(collected)
    collected.finish("t1")
    assert json.loads((tmp_path / "t1.json").read_text())["over_since"] == now[0]
    now[0] += LATE_FOR + 1
    later = CollectedJournals(tmp_path, lambda: (), lambda experiment, name: source, lambda: now[0])
    later._load()
    look_each_second(later, now, 1)
    assert later._jobs == {}


def test_a_refused_job_is_forgotten_at_once(collected, source, tmp_path):
    expect(collected)
    collected.refused("t1")
    assert (collected._jobs, source.looks, list(tmp_path.glob("*.json"))) == ({}, 0, [])


def test_a_clock_that_jumps_back_stops_no_looking(collected, now, source):
    expect(collected)
    collected.finish("t1")
    look_each_second(collected, now, 500)
    before = source.looks
    now[0] -= 86_400.0
    look_each_second(collected, now, 5)
    assert source.looks > before


def test_quiet_journals_give_one_sign_of_life_together_as_often_as_the_server_wants(
        collected, source, monkeypatch):
    given = []

    def deliver_quiet(urls, reports, several):
        given.append([report.job_name for report in reports])
        return [Reply(200, {"accepted": 1, "next_report_within": 100 if report.job_name == "t2" else 0.0})
                for report in reports]

    monkeypatch.setattr(collected_journals, "deliver_quiet", deliver_quiet)
    source.is_there = True
    for name in ("t1", "t2", "t3"):
        collected._add(name, NOTE)
    jobs = list(collected._jobs.values())
    collected._look(jobs[0])
    collected._look(jobs[1])
    collected._give_signs_of_life(jobs)
    assert given == [["t1", "t2"]], "the third has no journal yet"
    waits = [job.speaks_at - collected_journals.time.monotonic() for job in jobs]
    assert 99 < waits[1] <= 100
    assert 9 < waits[0] <= 10, "of a server that does not say how often"
    source.entries = [{"n": 2, "at": 1.0, "type": "metric"}]
    collected._look(jobs[0])
    jobs[0].waiting, jobs[0].speaks_at = [], 0.0
    collected.finish("t2")
    jobs[1].speaks_at = 0.0
    collected._give_signs_of_life(jobs)
    assert given[1:] == [["t1"]], "the job of the second has ended"


def test_signs_of_life_are_given_through_a_real_server_and_their_orders_reach_the_keepers(tmp_path, monkeypatch):
    obeyed = []

    class Quiet(Source):
        def obey(self, orders):
            obeyed.extend(order["order"] for order in orders)

    with KeeperReceiver(installation="test") as receiver:
        collected = CollectedJournals(tmp_path, lambda: (receiver.url,), lambda experiment, name: Quiet())
        for name in ("t1", "t2"):
            collected._add(name, {**NOTE, "token": receiver.access_for(name).token})
            collected._jobs[name].source.is_there = True
        receiver.order_stop("t2", "it was canceled")
        jobs = list(collected._jobs.values())
        for job in jobs:
            collected._look(job)
        collected._give_signs_of_life(jobs)
    assert obeyed == ["stop"]


def test_a_keeper_file_that_a_trial_has_written_keeps_no_other_keeper_from_giving_signs_of_life(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(collected_journals, "deliver_quiet", lambda urls, reports, several: (
        told.extend(report.document["keeper"] for report in reports) or [None] * len(reports)))
    keepers = {"t1": {"pid": 7, "host": "node"}, "t2": {"pid": "seven", "host": "x" * 10**6}, "t3": {"pid": 10**30}}

    class Quiet:
        def __init__(self, keeper):
            self.keeper = keeper

        def read(self):
            return "j", self.keeper, []

    journals = CollectedJournals(tmp_path, lambda: (), lambda experiment, name: Quiet(keepers[name]))
    for name in keepers:
        journals._add(name, NOTE)
    jobs = list(journals._jobs.values())
    for job in jobs:
        journals._collect(job)
    journals._give_signs_of_life(jobs)
    assert [(keeper["pid"], len(keeper["host"])) for keeper in told] == [(7, 4), (0, 255), (0, 0)]


def test_no_more_is_read_than_the_memory_has_room_for_while_the_server_takes_nothing(tmp_path, monkeypatch):
    answers = []
    monkeypatch.setattr(collected_journals, "deliver", lambda urls, job_name, token, keeper, entries, at: iter(
        [Reply(200, {"accepted": entries[-1]["n"]})] if answers else []))
    monkeypatch.setattr(collected_journals, "MOST_WAITING", 1000)

    class Endless:
        n = 0

        def read(self):
            self.n += 1
            return "j", {}, [{"n": self.n, "at": 0.0, "type": "output", "stream": "stdout", "offset": 0,
                              "data": "x" * 300}]

        def acknowledge(self, number):
            """Nobody asks."""

    endless = Endless()
    journals = CollectedJournals(tmp_path, lambda: (), lambda experiment, name: endless)
    journals._add("t1", NOTE)
    job = journals._jobs["t1"]
    for _ in range(50):
        journals._collect(job)
    assert endless.n == len(job.waiting) == 3
    answers.append("the server is back")
    journals._collect(job)
    assert job.waiting == []
    journals._collect(job)
    assert endless.n == 4, "and it goes on where it stopped"
