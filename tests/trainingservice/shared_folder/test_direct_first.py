"""The journal of a keeper that calls the server is left to it, and fetched where it does not get through."""

import json

import pytest

from trainingservice.shared_folder.direct_first import LOOK_EVERY, TAKE_OVER_AFTER, DirectFirstJournal
from trainingservice.submit_host.disk import LocalDisk
from trialkeeper import contract

NOTHING = ("", {}, [])


class Attempt:
    """An attempt's folder, a clock, and what is read of it."""

    def __init__(self, folder, calls=True):
        self.folder, self.now = folder, 0.0
        (folder / contract.JOURNAL_FILE).write_text(json.dumps({"journal_id": "j1"}) + "\n")
        if calls:
            (folder / "token").write_text("secret")
        self.journal = DirectFirstJournal(folder, LocalDisk(), lambda: self.now)

    def says(self, *entries):
        with (self.folder / contract.JOURNAL_FILE).open("a") as stream:
            for entry in entries:
                stream.write(json.dumps(entry) + "\n")

    def delivers(self, number):
        (self.folder / contract.ACCEPTED_FILE).write_text(str(number))

    def after(self, seconds):
        self.now += seconds
        return self.journal.read()


def entry(number, kind=contract.METRIC):
    return {"n": number, "type": kind}


@pytest.fixture
def attempt(tmp_path):
    return Attempt(tmp_path)


def test_what_the_keeper_brings_home_is_not_fetched(attempt):
    for number in range(1, 20):
        attempt.says(entry(number))
        assert attempt.after(LOOK_EVERY) == NOTHING
        attempt.delivers(number)
    assert attempt.after(TAKE_OVER_AFTER) == NOTHING


def test_what_waits_too_long_is_fetched_and_all_that_follows(attempt):
    attempt.says(entry(1), entry(2))
    attempt.delivers(1)
    assert attempt.after(LOOK_EVERY) == NOTHING
    journal_id, _, entries = attempt.after(TAKE_OVER_AFTER)
    assert (journal_id, [found["n"] for found in entries]) == ("j1", [2])
    attempt.says(entry(3))
    assert [found["n"] for found in attempt.after(0)[2]] == [3]


def test_an_end_that_was_brought_home_is_told_once_so_that_nobody_looks_any_more(attempt):
    attempt.says(entry(1), entry(2, contract.ENDED))
    attempt.delivers(2)
    assert [found["n"] for found in attempt.after(LOOK_EVERY)[2]] == [2]
    assert attempt.after(LOOK_EVERY)[2] == []


def test_the_folder_is_not_asked_more_often_than_need_be(attempt):
    attempt.says(entry(1))
    assert attempt.after(LOOK_EVERY) == NOTHING
    attempt.journal._disk = None  # whatever would be asked now
    assert attempt.after(LOOK_EVERY / 2) == NOTHING


def test_a_keeper_that_calls_nobody_is_read_at_once(tmp_path):
    attempt = Attempt(tmp_path, calls=False)
    attempt.says(entry(1))
    assert [found["n"] for found in attempt.after(0)[2]] == [1]


def test_a_server_that_lost_entries_gets_all_of_them_again(attempt):
    attempt.says(entry(1), entry(2))
    attempt.after(LOOK_EVERY)
    assert len(attempt.after(TAKE_OVER_AFTER)[2]) == 2
    attempt.journal.rewind()
    assert len(attempt.after(0)[2]) == 2
