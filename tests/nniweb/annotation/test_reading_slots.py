"""How many readings of annotations run at a time, in all and for each person."""

import threading
from collections.abc import Iterator

import pytest

from nniweb.annotation import reading_slots
from nniweb.annotation.reading_process import AnnotationsInvalid, rewrite_files
from nniweb.annotation.reading_slots import NoSlot, ReadingSlots
from nniweb.experiments.access.request_actor import Asking, _asking
from nniweb.experiments.models import User

ANNOTATED = {"a.py": b'"""@nni.variable(nni.choice(1, 2), name=x)"""\nx = 1\n'}


@pytest.fixture
def slots() -> ReadingSlots:
    """Who asks is what the thread is named."""
    made = ReadingSlots()
    made.person = lambda: None if (name := threading.current_thread().name) == "nobody" else name
    return made


class Reading:
    """A reading that goes on until it is told to end."""

    def __init__(self, slots: ReadingSlots, person: str) -> None:
        self.begun, self.refused, self._end = threading.Event(), threading.Event(), threading.Event()

        def read() -> None:
            try:
                with slots.slot():
                    self.begun.set()
                    self._end.wait(30)
            except NoSlot:
                self.refused.set()
        self._thread = threading.Thread(target=read, name=person)
        self._thread.start()

    def end(self) -> None:
        self._end.set()
        self._thread.join(30)


@pytest.fixture
def begin(slots: ReadingSlots) -> Iterator[object]:
    readings: list[Reading] = []

    def start(person: str) -> Reading:
        readings.append(Reading(slots, person))
        return readings[-1]
    yield start
    for reading in readings:
        reading.end()


def test_one_person_has_a_share_and_the_machine_a_limit(begin, monkeypatch) -> None:
    monkeypatch.setattr(reading_slots, "MOST_RUNNING", 3)
    first, second = begin("ada"), begin("ada")
    assert first.begun.wait(90)
    assert second.begun.wait(90)
    assert begin("ada").refused.wait(90)
    other = begin("bob")
    assert other.begun.wait(90)
    waiting = begin("bob")
    assert not waiting.begun.wait(0.2)
    first.end()
    assert waiting.begun.wait(90)


def test_a_person_does_not_wait_for_ever_and_the_worker_does(begin, monkeypatch) -> None:
    monkeypatch.setattr(reading_slots, "PATIENCE", 0.2)
    first, second = begin("ada"), begin("ada")
    assert first.begun.wait(90)
    assert second.begun.wait(90)
    worker, other = begin("nobody"), begin("bob")
    assert other.refused.wait(90)
    assert not worker.begun.is_set()
    assert not worker.refused.is_set()
    second.end()
    assert worker.begun.wait(90)


@pytest.mark.django_db
def test_what_is_read_for_a_request_counts_to_its_person(monkeypatch) -> None:
    monkeypatch.setattr(reading_slots, "MOST_OF_PERSON", 0)
    assert rewrite_files(ANNOTATED).search_space, "nobody asks"
    reset = _asking.set(Asking(via="page", user=User.objects.create_user("ada")))
    try:
        with pytest.raises(AnnotationsInvalid, match="of your checks of annotations are in progress"):
            rewrite_files(ANNOTATED)
    finally:
        _asking.reset(reset)
