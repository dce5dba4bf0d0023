"""Never more trials are on the cluster than it may have, also after a restart, and counting them costs nothing."""

from __future__ import annotations

import threading

import pytest

from trainingservice.kubernetes_base.room import Room
from trainingservice.polling.service import MustWait
from trainingservice.trial_job import ResumedJob
from trainingservice.trial_job_status import TrialJobStatus


def test_one_more_waits_until_another_has_ended() -> None:
    ended: set[str] = set()
    room = Room(2, ended.__contains__)
    for name in ("a", "b"):
        room.check()
        room.take(name)
        room.take(name)
    with pytest.raises(MustWait, match="2 trials are on the cluster, and maxUnfinishedObjects allows 2"):
        room.check()
    ended.add("a")
    room.give_back("a")
    room.check()


def test_news_of_a_trial_that_has_ended_take_no_room() -> None:
    room = Room(1, lambda name: True)
    room.take("a")
    room.check()


def test_an_end_that_comes_while_a_trial_is_counted_gives_its_room_back() -> None:
    ended = threading.Event()

    def has_ended(name: str) -> bool:
        answer = ended.is_set()
        end.start()  # the end comes after we have looked, and before we have counted
        return answer

    def come_to_an_end() -> None:
        ended.set()
        room.give_back("a")

    end = threading.Thread(target=come_to_an_end)
    room = Room(1, has_ended)
    room.take("a")
    end.join()
    room.check()


def test_trials_of_before_a_restart_take_room(bench) -> None:
    first = bench.open_service()
    running = bench.form("echo here; sleep 600")
    first.submit_trial_job(running)
    bench.wait("the first one runs", lambda: bench.output(running))
    detail = first.get_trial_job(running.job_name)
    bench.close_service(first)
    bench.platform.more = {"max_unfinished_objects": 1}
    second = bench.open_service([ResumedJob(detail)])
    late = bench.form("echo late")
    second.submit_trial_job(late)
    bench.wait("the late one waits", lambda: "Waits for room" in second.get_trial_job(late.job_name).message)
    second.cancel_trial_job(running.job_name)
    bench.wait_for_status(second, running, TrialJobStatus.USER_CANCELED)
    bench.wait_for_end(second, late)
