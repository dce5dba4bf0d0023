"""The bell says that something changed, and nothing else."""

import threading

import pytest
from django.db import transaction

from nniweb.experiments.pubsub import doorbell
from nniweb.experiments.pubsub.revisions import next_revision


def test_rings_are_gathered_until_somebody_waits() -> None:
    with doorbell.listening() as listener:
        for pk in (1, 2, 1, 1):
            doorbell.ring(pk)
        assert listener.wait(90) == {1, 2}
        assert listener.wait(0) == set()


def test_a_waiting_listener_is_woken_from_another_thread() -> None:
    with doorbell.listening() as listener:
        threading.Timer(0.05, doorbell.ring, [7]).start()
        assert listener.wait(90) == {7}


def test_who_waits_is_let_go_at_the_end_and_nobody_waits_afterwards() -> None:
    with doorbell.listening() as listener:
        ending = threading.Timer(0.05, listener.end_waits)
        ending.start()
        assert listener.wait(60) == set()
        ending.join()
        assert listener.wait(60) == set()
        doorbell.ring(7)
        assert listener.wait(60) == {7}


def test_nobody_is_told_after_the_block() -> None:
    heard: list[int] = []
    with doorbell.listening(heard.append):
        doorbell.ring(1)
    doorbell.ring(2)
    assert heard == [1]


def test_who_hears_for_rounds_only_is_spared_what_needs_none() -> None:
    with doorbell.listening(rounds_only=True) as worker, doorbell.listening() as page:
        doorbell.ring(1, needs_round=False)
        doorbell.ring(2)
        assert worker.take() == {2}
        assert page.take() == {1, 2}


@pytest.mark.django_db(transaction=True)
def test_the_bell_rings_when_the_change_can_be_read_and_not_before(make_experiment) -> None:
    experiment = make_experiment()
    with doorbell.listening() as listener:
        with transaction.atomic():
            next_revision(experiment.pk)
            assert listener.wait(0) == set()
        assert listener.wait(0) == {experiment.pk}
        with transaction.atomic():
            next_revision(experiment.pk)
            transaction.set_rollback(True)
        assert listener.wait(0) == set()
