"""How often a machine's GPUs are looked at."""

import itertools
import threading

from trainingservice.errors import TemporaryError
from trainingservice.gpus.gpu_watch import GpuWatch

PATIENCE = 60.0


def test_who_asks_while_a_look_is_under_way_is_served_by_that_look():
    asked, go_on, looks, served = threading.Event(), threading.Event(), [], threading.Semaphore(0)
    ticks = itertools.count()

    def ask():
        looks.append("look")
        asked.set()
        assert go_on.wait(PATIENCE)
        return [{"index": 0, "processes": 0}], ""

    watch = GpuWatch(ask, held=frozenset, matters=lambda: True, on_look=served.release,
                     monotonic=lambda: next(ticks) / 1000)
    watch.start()
    try:
        assert asked.wait(PATIENCE)
        assert watch.recent() is None  # wants one, and the first is on its way
        go_on.set()
        # once for the look, once more for who asked meanwhile: it may have begun to wait after the first call
        assert served.acquire(timeout=PATIENCE)
        assert served.acquire(timeout=PATIENCE)
        assert looks == ["look"]
        assert watch.recent().readings()[0].index == 0
    finally:
        go_on.set()
        watch.stop()
        watch.join()


def test_where_nobody_answers_who_waits_is_told_why_and_it_is_tried_again():
    answers, tried, looked = [TemporaryError("the machine did not answer within 30 s")], threading.Semaphore(0), \
        threading.Event()

    def ask():
        tried.release()
        if answers:
            raise answers[0]
        return [{"index": 0, "processes": 0}], ""

    watch = GpuWatch(ask, held=frozenset, matters=lambda: True, on_look=looked.set)
    watch.start()
    try:
        assert tried.acquire(timeout=PATIENCE)
        watch.recent()  # wants one more
        assert tried.acquire(timeout=PATIENCE)  # so the first one is noted
        assert watch.recent().error == "the machine did not answer within 30 s"
        assert watch.recent().message("ada").code == "gpus_unread"
        answers.clear()
        watch.recent()
        assert looked.wait(PATIENCE)
        assert watch.recent().readings()[0].index == 0
    finally:
        watch.stop()
        watch.join()
