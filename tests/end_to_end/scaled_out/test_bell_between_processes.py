"""What is rung in one process is heard in the others, over Redis; without it nobody waits and nothing breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from channels.layers import InMemoryChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

from nniweb.experiments.pubsub.bell_between_processes import BellBetweenProcesses
from tests.end_to_end.running_server import ROOT
from tests.end_to_end.scaled_out.redis_server import RedisServer
from tests.trialkeeper.keeper_run import wait_until

#: Seconds for anything here to happen.
PATIENCE = 60.0

OTHER_PROCESS = """
import sys, time, django
django.setup()
from nniweb.experiments.pubsub import doorbell
with doorbell.listening() as listener:
    while not doorbell._others.is_connected:
        time.sleep(0.02)
    print("listening", flush=True)
    print(sorted(listener.wait(60)), flush=True)
    doorbell.ring(8)
    sys.stdin.read()
"""


def until(condition: Callable[[], object]) -> None:
    wait_until(condition, PATIENCE)


Bell = tuple[BellBetweenProcesses, list[int]]


@pytest.fixture
def make_bell(redis: RedisServer) -> Iterator[Callable[[], Bell]]:
    """Makes bells, as of processes of their own, and the lists of what they hear; they are connected."""
    made: list[BellBetweenProcesses] = []

    def make() -> Bell:
        heard: list[int] = []
        bell = BellBetweenProcesses(
            lambda: RedisPubSubChannelLayer(hosts=[{"address": redis.url}], prefix="nniweb-tests"),
            lambda pk, needs_round: heard.append(pk if needs_round else -pk))
        made.append(bell)
        bell.start()
        until(lambda: bell.is_connected)
        return bell, heard

    yield make
    for bell in made:
        bell.close()


def test_a_ring_is_heard_in_the_other_process_and_not_twice_in_its_own(redis: RedisServer, tmp_path: Path,
                                                                      make_bell: Callable[[], Bell]) -> None:
    bell, heard = make_bell()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NNIWEB_")}
    environment |= {"DJANGO_SETTINGS_MODULE": "nniweb.settings", "NNIWEB_DATA": str(tmp_path),
                    "NNIWEB_INSTALLATION": "tests", "NNIWEB_REDIS_URL": redis.url}
    other = subprocess.Popen([sys.executable, "-c", OTHER_PROCESS], cwd=ROOT, env=environment, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "listening\n"
        bell.ring(7)
        assert other.stdout.readline() == "[7]\n"
        until(lambda: heard == [8])
    finally:
        other.communicate("\n", timeout=PATIENCE)
    assert other.returncode == 0, "it ends by itself, its thread and all"


def test_many_rings_become_few_messages_and_no_experiment_is_forgotten(make_bell: Callable[[], Bell]) -> None:
    (one, heard_by_one), (_, heard_by_two) = make_bell(), make_bell()
    for number in range(3000):
        one.ring(number % 3 + 1)
    until(lambda: set(heard_by_two) == {1, 2, 3})
    assert len(heard_by_two) < 3000
    assert heard_by_one == []


def test_a_ring_that_needs_no_round_says_so_unless_another_one_does(make_bell: Callable[[], Bell]) -> None:
    (one, _), (_, heard_by_two) = make_bell(), make_bell()
    one.ring(4, needs_round=False)
    until(lambda: heard_by_two == [-4])
    assert one._loop is not None
    have_rung = threading.Event()
    one._loop.call_soon_threadsafe(have_rung.wait, PATIENCE)  # so that these four rings go out together
    one.ring(5, needs_round=False)
    one.ring(5, needs_round=True)
    one.ring(6, needs_round=True)
    one.ring(6, needs_round=False)
    have_rung.set()
    one.ring(7)  # heard after all that was rung before, or together with it
    until(lambda: 7 in heard_by_two)
    assert heard_by_two == [-4, 5, 6, 7]


def test_without_redis_rings_are_dropped_and_it_is_said_once_that_it_went_and_returned(
        redis: RedisServer, make_bell: Callable[[], Bell], caplog: pytest.LogCaptureFixture) -> None:
    (one, _), (two, heard_by_two) = make_bell(), make_bell()
    with caplog.at_level(logging.INFO, logger="nniweb"):
        redis.kill()
        one.ring(1)
        until(lambda: not one.is_connected and not two.is_connected)
        for number in range(100):
            one.ring(number)
        redis.start()
        until(lambda: one.is_connected and two.is_connected)

        def rung() -> bool:  # again and again: the other one may have heard the first ring while it came back itself
            one.ring(1000)
            return 1000 in heard_by_two

        until(rung)
    said = [record.getMessage().split(" (")[0].split(":")[0] for record in caplog.records]
    assert sorted(said) == ["Redis can be reached again"] * 2 + ["Redis cannot be reached"] * 2


def test_a_closed_bell_begins_anew_with_the_next_ring(make_bell: Callable[[], Bell]) -> None:
    (one, _), (_, heard_by_two) = make_bell(), make_bell()
    one.close()
    one.close()
    one.ring(5)
    until(lambda: heard_by_two == [5])


class OnceDeaf(InMemoryChannelLayer):
    """Swallows the first cancelation, as client libraries do under load."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()

    async def new_channel(self, prefix: str = "specific.") -> str:
        self.is_asked.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(PATIENCE)
        return str(await super().new_channel(prefix))


def test_a_bell_ends_also_where_the_layer_swallows_a_cancelation() -> None:
    layer = OnceDeaf()
    bell = BellBetweenProcesses(lambda: layer, lambda pk, needs_round: None)
    bell.start()
    assert layer.is_asked.wait(PATIENCE)
    thread = bell._thread
    assert thread is not None
    bell.close()
    assert not thread.is_alive
