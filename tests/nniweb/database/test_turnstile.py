"""Writers of one process get their turn in the order in which they came."""

import threading

import pytest
from django.db import DatabaseError, connection, transaction

from nniweb.database.sqlite.turnstile import Turnstile
from nniweb.experiments.models import Cluster


def in_thread(work) -> threading.Thread:
    def close_after() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=close_after)
    thread.start()
    return thread


def wait_until_queued(turnstile: Turnstile, count: int) -> None:
    for _ in range(5000):
        with turnstile._guard:
            if len(turnstile._waiting) == count:
                return
        threading.Event().wait(0.001)
    raise AssertionError("nobody queued up")


def test_who_came_first_is_served_first() -> None:
    turnstile, served = Turnstile(), []
    turnstile.acquire()
    threads = []
    for number in range(5):
        def work(number: int = number) -> None:
            turnstile.acquire()
            served.append(number)
            turnstile.release()

        threads.append(in_thread(work))
        wait_until_queued(turnstile, number + 1)
    turnstile.release()
    for thread in threads:
        thread.join(60)
    assert served == [0, 1, 2, 3, 4]
    turnstile.acquire()  # and it is free again


sqlite_only = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the turnstile is SQLite's")


@sqlite_only
@pytest.mark.django_db(transaction=True)
def test_a_transaction_waits_for_the_one_before_it() -> None:
    order = []
    with transaction.atomic():
        Cluster.objects.create(name="first", platform="docile")

        def second() -> None:
            with transaction.atomic():
                order.append(list(Cluster.objects.values_list("name", flat=True)))

        thread = in_thread(second)
        wait_until_queued(connection._turnstile(), 1)
        order.append("the first ends")
    thread.join(60)
    assert order == ["the first ends", ["first"]]


@sqlite_only
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["an error", "a broken statement", "a closed connection"])
def test_the_turn_ends_however_the_transaction_ends(how: str) -> None:
    try:
        with transaction.atomic():
            if how == "an error":
                raise RuntimeError
            if how == "a broken statement":
                connection.cursor().execute("NO SQL")
            connection.close()
    except (RuntimeError, DatabaseError):
        pass

    def another() -> None:
        with transaction.atomic():
            Cluster.objects.create(name="another", platform="docile")

    thread = in_thread(another)
    thread.join(60)
    assert not thread.is_alive()
    assert Cluster.objects.filter(name="another").exists()
