"""Several things done at the same moment, each in a thread and with a connection of its own."""

import threading
from collections.abc import Callable

from django.db import connection


def at_once(*works: Callable[[int], None], rounds: int = 1, seconds: float = 120.0) -> None:
    """Call each of ``works`` with the number of the round, from 1 on; each round begins for all of them together.

    Fails where one of them raises, or does not end within so many seconds.
    """
    gate = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def run(work: Callable[[int], None]) -> None:
        try:
            for number in range(1, rounds + 1):
                gate.wait(seconds)
                work(number)
        except BaseException as error:
            failures.append(error)
            gate.abort()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not failures, failures
    assert not any(thread.is_alive() for thread in threads), f"not all have ended within {seconds} s"
