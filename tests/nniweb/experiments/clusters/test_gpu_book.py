"""The book of GPUs in the database: one for all experiments and clusters, whoever books."""

import pytest

from nniweb.experiments.clusters.gpu_book import AttemptGpuBook
from nniweb.experiments.models import Attempt, NodeBooking
from trainingservice.gpus.gpu_slots import GpuBooking, MemoryGpuBook
from trainingservice.machine_shares.shares import MachineShare

pytestmark = pytest.mark.django_db

GB = 1024 ** 3


def test_what_one_experiment_holds_another_one_does_not_get(make_attempt) -> None:
    mine, other = make_attempt(), make_attempt()
    assert mine.trial.experiment != other.trial.experiment
    book, of_another_process = AttemptGpuBook(), AttemptGpuBook()
    assert book.book("m1", mine.job_name, (0, 1), 1)
    assert not of_another_process.book("m1", other.job_name, (1, 2), 1)
    assert of_another_process.booked("m1") == {mine.job_name: (0, 1)}
    assert of_another_process.book("m2", other.job_name, (1, 2), 1)  # another machine's
    assert (book.booked("m1"), book.booked("m2")) == ({mine.job_name: (0, 1)}, {other.job_name: (1, 2)})
    book.free(mine.job_name)
    assert of_another_process.book("m1", other.job_name, (1, 2), 1)
    assert (book.booked("m1"), book.booked("m2")) == ({other.job_name: (1, 2)}, {})


def test_a_gpu_takes_as_many_trials_of_all_experiments_as_it_may(make_attempt) -> None:
    book, attempts = AttemptGpuBook(), [make_attempt() for _ in range(3)]
    assert [book.book("m1", attempt.job_name, (0,), 2) for attempt in attempts] == [True, True, False]
    assert book.book("m1", attempts[0].job_name, (0,), 2)  # its own booking is no other's


def test_an_attempt_that_has_ended_holds_nothing_and_gets_nothing(make_attempt) -> None:
    book, mine, other = AttemptGpuBook(), make_attempt(), make_attempt()
    assert book.book("m1", mine.job_name, (0,), 1)
    Attempt.objects.filter(pk=mine.pk).update(stage=Attempt.Stage.ENDED)
    assert book.booked("m1") == {}
    assert book.book("m1", other.job_name, (0,), 1)
    assert not book.book("m1", mine.job_name, (1,), 1)


def test_the_nodes_of_a_trial_are_booked_together_or_not_at_all(make_attempt) -> None:
    book, other, mine = AttemptGpuBook(), make_attempt(), make_attempt()
    assert book.book("m2", other.job_name, (1,), 1)
    assert not book.book_nodes(mine.job_name, [GpuBooking("m1", (0,)), GpuBooking("m2", (0, 1))])
    assert (book.booked("m1"), book.booked("m2")) == ({}, {other.job_name: (1,)})
    assert book.book_nodes(mine.job_name, [GpuBooking("m1", (0,)), GpuBooking("m2", (0,)), GpuBooking("m2", (2, 3))])
    assert (book.booked("m1"), book.booked("m2")) == (
        {mine.job_name: (0,)}, {other.job_name: (1,), mine.job_name: (0, 2, 3)})
    assert not book.book("m2", make_attempt().job_name, (3,), 1)
    book.free(mine.job_name)
    assert (book.booked("m1"), book.booked("m2"), NodeBooking.objects.count()) == ({}, {other.job_name: (1,)}, 0)


ROOM = MachineShare(4.0, 8 * GB)


def share(cpus: float, memory: int) -> list[GpuBooking]:
    """Of machine m1, without GPUs."""
    return [GpuBooking("m1", (), share=MachineShare(cpus, memory), machine_room=ROOM)]


@pytest.mark.parametrize("book", [AttemptGpuBook(), MemoryGpuBook()])
def test_nodes_of_one_trial_on_one_machine_have_no_more_than_it_has_together(book, make_attempt) -> None:
    job = make_attempt().job_name
    assert not book.book_nodes(job, share(3.0, GB) * 2)
    assert not book.book_nodes(job, share(1.0, 5 * GB) * 2)
    assert not book.book_nodes(job, [GpuBooking("m1", (0,)), GpuBooking("m1", (1, 0))])
    assert book.booked("m1") == {}
    assert book.book_nodes(job, share(2.0, 4 * GB) * 2)
    assert {name: one.share for name, one in book.booked("m1").items()} == {job: ROOM}
    assert book.book_nodes(job, [GpuBooking("m1", (0,)), GpuBooking("m1", (1,)), GpuBooking("m2", (0,))])


def test_cpus_and_memory_of_a_machine_are_given_once_over_all_experiments(make_attempt) -> None:
    book, of_another_process = AttemptGpuBook(), AttemptGpuBook()
    first, second, third = (make_attempt().job_name for _ in range(3))
    assert book.book_nodes(first, share(3.0, 2 * GB))
    assert not of_another_process.book_nodes(second, share(1.5, GB))
    assert not of_another_process.book_nodes(second, share(1.0, 7 * GB))
    assert of_another_process.book_nodes(second, share(1.0, 6 * GB))
    assert book.book_nodes(first, share(3.0, 2 * GB))  # its own booking is no other's
    held = book.booked("m1")
    assert {name: (tuple(one), one.share) for name, one in held.items()} == {
        first: ((), MachineShare(3.0, 2 * GB)), second: ((), MachineShare(1.0, 6 * GB))}
    assert Attempt.objects.get(job_name=first).gpu_indices is None  # GPUs are not looked at
    assert not book.book_nodes(third, share(0.5, 0))
    book.free(first)
    assert book.book_nodes(third, share(0.5, 0))
    Attempt.objects.filter(job_name=second).update(stage=Attempt.Stage.ENDED)
    assert set(book.booked("m1")) == {third}


def test_a_trial_that_asks_for_gpus_alone_needs_no_room_and_one_with_both_needs_both(make_attempt) -> None:
    book = AttemptGpuBook()
    first, second, third = (make_attempt().job_name for _ in range(3))
    assert book.book_nodes(first, share(4.0, 0))
    both = GpuBooking("m1", (1,), share=MachineShare(1.0, 0), machine_room=ROOM)
    assert not book.book_nodes(second, [both])
    assert book.book("m1", third, (0,), 1)
    book.free(first)
    assert book.book_nodes(second, [both])
    assert not book.book("m1", first, (1,), 1)


def test_each_node_of_a_trial_holds_as_much(make_attempt) -> None:
    book, mine = AttemptGpuBook(), make_attempt().job_name
    nodes = [GpuBooking(identity, (), share=MachineShare(2.0, GB), machine_room=ROOM)
             for identity in ("m1", "m2", "m2")]
    assert book.book_nodes(mine, nodes)
    assert (book.booked("m1")[mine].share, book.booked("m2")[mine].share) == (
        MachineShare(2.0, GB), MachineShare(4.0, 2 * GB))


def test_a_machine_that_tells_nothing_refuses_nobody(make_attempt) -> None:
    booking = GpuBooking("m1", (), share=MachineShare(64.0, 900 * GB))
    assert all(AttemptGpuBook().book_nodes(make_attempt().job_name, [booking]) for _ in range(2))


def test_the_nodes_of_a_trial_that_has_ended_hold_nothing(make_attempt) -> None:
    book, mine = AttemptGpuBook(), make_attempt()
    assert book.book_nodes(mine.job_name, [GpuBooking("m1", (0,)), GpuBooking("m2", (0,))])
    Attempt.objects.filter(pk=mine.pk).update(stage=Attempt.Stage.ENDED)
    assert (book.booked("m1"), book.booked("m2")) == ({}, {})


def test_a_trial_that_is_alone_keeps_all_others_off_its_gpus(make_attempt) -> None:
    book, alone, other = AttemptGpuBook(), make_attempt(), make_attempt()
    assert book.book("m1", other.job_name, (0,), 4)
    assert not book.book("m1", alone.job_name, (0,), 4, alone=True)
    assert book.book_nodes(alone.job_name, [GpuBooking("m1", (1,), 4, True), GpuBooking("m2", (0,), 4, True)])
    third = make_attempt()
    assert not book.book("m1", third.job_name, (1,), 4)
    assert not book.book("m2", third.job_name, (0,), 4)
    assert book.booked("m2")[alone.job_name].alone
    assert not book.booked("m1")[other.job_name].alone


def test_bytes_are_booked_beside_indices_over_all_experiments(make_attempt) -> None:
    book, first, second, whole = AttemptGpuBook(), make_attempt(), make_attempt(), make_attempt()

    def booking(gigabytes: int) -> list[GpuBooking]:
        return [GpuBooking("m1", (0,), 1, False, gigabytes << 30, (77 << 30,))]

    assert book.book_nodes(first.job_name, booking(50))
    assert not book.book_nodes(second.job_name, booking(50))
    assert book.book_nodes(second.job_name, booking(20))
    assert not book.book("m1", whole.job_name, (0,), 1)
    assert {name: held.memory >> 30 for name, held in book.booked("m1").items()} == {
        first.job_name: 50, second.job_name: 20}
    book.free(first.job_name)
    book.free(second.job_name)
    assert book.book("m1", whole.job_name, (0,), 1)
    assert not book.book_nodes(first.job_name, booking(1))


def test_several_machines_are_asked_for_in_two_questions_and_each_says_the_same(
        make_attempt, django_assert_num_queries) -> None:
    book, memory = AttemptGpuBook(), MemoryGpuBook()
    mine, other, third = make_attempt(), make_attempt(), make_attempt()
    for one in (book, memory):
        assert one.book_nodes(mine.job_name, [GpuBooking("m1", (0,)), GpuBooking("m2", (1,)), GpuBooking("m2", (2,))])
        assert one.book_nodes(other.job_name, [GpuBooking("m2", (0,), memory=GB, room=(8 * GB,))])
        assert one.book_nodes(third.job_name, [GpuBooking("m4", (0,))])
    with django_assert_num_queries(2):
        found = book.booked_on(["m1", "m2", "m3"])
    assert found == memory.booked_on(["m1", "m2", "m3"]) == {
        "m1": {mine.job_name: (0,)}, "m2": {mine.job_name: (1, 2), other.job_name: (0,)}, "m3": {}}
    assert found["m2"][other.job_name].memory == GB
    assert {name: book.booked(name) for name in found} == found
