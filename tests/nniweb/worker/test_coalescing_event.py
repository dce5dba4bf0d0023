"""The alarm that wakes a cluster's rounds."""

import threading
import time

from nniweb.worker.coalescing_event import CoalescingEvent


def test_who_waits_is_woken_at_once() -> None:
    alarm = CoalescingEvent()
    threading.Timer(0.05, alarm.ring).start()
    assert alarm.wait(90)


def test_without_a_ring_the_wait_ends_after_its_time() -> None:
    assert not CoalescingEvent().wait(0.01)


def test_a_ring_that_is_not_urgent_is_heard_within_its_time_and_not_before() -> None:
    alarm = CoalescingEvent()
    began = time.monotonic()
    alarm.ring(within=0.2)
    assert not alarm.wait(0.0)
    assert alarm.wait(90)
    assert time.monotonic() - began >= 0.2


def test_an_urgent_ring_is_not_held_up_by_one_that_is_not() -> None:
    alarm = CoalescingEvent()
    alarm.ring(within=60.0)
    alarm.ring()
    alarm.ring(within=60.0)
    assert alarm.wait(0.0)


def test_a_ring_that_is_not_urgent_shortens_a_wait_that_has_begun() -> None:
    alarm = CoalescingEvent()
    threading.Timer(0.05, lambda: alarm.ring(within=0.05)).start()
    assert alarm.wait(90)


def test_what_was_rung_for_before_is_acted_on_once() -> None:
    alarm = CoalescingEvent()
    alarm.ring()
    assert not alarm.clear()
    assert not alarm.wait(0.0)
    alarm.ring(within=0.01)
    assert alarm.wait(90)
    assert alarm.clear()
    assert not alarm.wait(0.0)


def test_what_was_rung_for_later_still_comes_after_something_urgent_was_acted_on() -> None:
    alarm = CoalescingEvent()
    alarm.ring(within=0.2)
    alarm.ring()
    assert not alarm.clear()
    assert not alarm.wait(0.0)
    assert alarm.wait(90)
    assert alarm.clear()
