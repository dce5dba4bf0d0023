"""Which GPUs a trial gets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainingservice.gpus.gpu_slots import (
    Assigned,
    GpuBooking,
    GpuReading,
    GpuRequest,
    HeldGpus,
    Impossible,
    MemoryGpuBook,
    Waits,
    choose_gpus,
)
from trainingservice.trial_job import GpuDemand

TWO_IDLE = [GpuReading(0), GpuReading(1)]


def choose(request, readings=TWO_IDLE, booked=None, recently_ours=()):
    return choose_gpus(request, readings, booked or {}, "ada", recently_ours=recently_ours)


def test_the_first_free_ones_are_taken_in_order():
    assert choose(GpuRequest(1), [GpuReading(1), GpuReading(0)]) == Assigned((0,))
    assert choose(GpuRequest(1), booked={"other": (0,)}) == Assigned((1,))


def test_as_many_as_there_are_can_be_had():
    assert choose(GpuRequest(2)) == Assigned((0, 1))


def test_more_than_there_are_is_impossible_and_says_both_numbers():
    answer = choose(GpuRequest(4))
    assert answer == Impossible("This trial asks for 4 GPUs, but machine ada has 2 GPUs; lower trialGpuNumber.")
    assert "has no GPU" in choose(GpuRequest(1), []).reason


def test_a_trial_that_waits_is_told_who_holds_the_gpus():
    answer = choose(GpuRequest(2), booked={"trialone": (0,)})
    assert answer == Waits("Waits for 2 GPUs: 1 GPU of machine ada is free; GPU 0 is held by trialone.")


def test_a_gpu_that_others_use_is_left_alone_unless_active_ones_are_allowed():
    busy = [GpuReading(0, processes=3), GpuReading(1)]
    assert choose(GpuRequest(1), busy) == Assigned((1,))
    answer = choose(GpuRequest(2), busy)
    assert isinstance(answer, Waits)
    assert "GPU 0 is used by 3 process(es) of others (useActiveGpu allows sharing it)" in answer.reason
    assert choose(GpuRequest(2, use_active_gpu=True), busy) == Assigned((0, 1))


def test_processes_on_a_gpu_of_our_own_trials_do_not_count_as_others():
    busy = [GpuReading(0, processes=1)]
    assert choose(GpuRequest(1, max_trials_per_gpu=2), busy, {"ours": (0,)}) == Assigned((0,))


def test_a_reading_made_while_our_trial_held_the_gpu_does_not_keep_it_busy_after_its_end():
    busy = [GpuReading(0, processes=1)]
    assert isinstance(choose(GpuRequest(1), busy), Waits)
    assert choose(GpuRequest(1), busy, recently_ours={0}) == Assigned((0,))


def test_trials_share_a_gpu_up_to_the_limit():
    request = GpuRequest(1, max_trials_per_gpu=2)
    assert choose(request, [GpuReading(0)], {"one": (0,)}) == Assigned((0,))
    assert isinstance(choose(request, [GpuReading(0)], {"one": (0,), "two": (0,)}), Waits)


def test_only_the_named_gpus_are_used():
    assert choose(GpuRequest(1, gpu_indices=(1,))) == Assigned((1,))
    assert "gpuIndices allows 1 GPU" in choose(GpuRequest(2, gpu_indices=(1,))).reason


def test_a_named_gpu_that_is_not_there_is_impossible():
    answer = choose(GpuRequest(1, gpu_indices=(0, 7)))
    assert isinstance(answer, Impossible)
    assert "names GPU 7, but machine ada has 2 GPUs (0, 1)" in answer.reason


@given(number=st.integers(1, 5), limit=st.integers(1, 3), active=st.booleans(),
       processes=st.lists(st.integers(0, 2), max_size=5),
       booked=st.dictionaries(st.text("ab", min_size=1, max_size=3), st.sets(st.integers(0, 4)).map(sorted).map(tuple)))
def test_what_is_assigned_can_always_be_booked_and_what_waits_can_run_when_all_is_free(
        number, limit, active, processes, booked):
    readings = [GpuReading(index, count) for index, count in enumerate(processes)]
    request = GpuRequest(number, limit, active)
    answer = choose_gpus(request, readings, booked, "ada")
    idle = choose_gpus(request, [GpuReading(reading.index) for reading in readings], {}, "ada")
    assert isinstance(answer, Impossible) == isinstance(idle, Impossible) == (number > len(readings))
    if isinstance(answer, Assigned):
        assert len(set(answer.indices)) == number
        book = MemoryGpuBook()
        for job, indices in booked.items():
            assert book.book("m", job, indices, 1000)
        assert book.book("m", "new", answer.indices, limit)


ALONE = GpuRequest(1, max_trials_per_gpu=4, demand=GpuDemand(alone=True))


def test_a_job_that_is_to_be_alone_gets_no_gpu_of_another_job_and_the_largest_of_the_free_ones():
    sizes = [GpuReading(0, memory_total=80), GpuReading(1, memory_total=16), GpuReading(2, memory_total=40)]
    assert choose(ALONE, sizes) == Assigned((0,))
    assert choose(ALONE, sizes, {"other": (0,)}) == Assigned((2,))
    assert isinstance(choose(ALONE, sizes, {"one": (0,), "two": (1, 2)}), Waits)


def test_nobody_is_put_beside_a_job_that_is_alone():
    held = {"first": HeldGpus((0,), alone=True)}
    assert choose(GpuRequest(1, max_trials_per_gpu=4), booked=held) == Assigned((1,))
    answer = choose(GpuRequest(2, max_trials_per_gpu=4), booked=held)
    assert isinstance(answer, Waits)
    assert "GPU 0 is held by first" in answer.reason


def test_a_job_that_needs_more_than_a_gpu_had_gets_a_larger_one_or_is_told_that_there_is_none():
    request = GpuRequest(1, demand=GpuDemand(alone=True, memory_above=16 << 30))
    sizes = [GpuReading(0, memory_total=16 << 30), GpuReading(1, memory_total=24 << 30)]
    assert choose(request, sizes) == Assigned((1,))
    refused = choose(request, [GpuReading(0, memory_total=16 << 30), GpuReading(1)])
    assert isinstance(refused, Impossible)
    assert refused.reason.code == "gpus_too_small"
    assert "on a GPU with 16.0 GB" in refused.reason


def test_the_book_in_memory_keeps_others_from_a_job_that_is_alone():
    book = MemoryGpuBook()
    assert book.book("m", "shared", (0,), 4)
    assert not book.book("m", "first", (0,), 4, alone=True)
    assert book.book("m", "first", (1,), 4, alone=True)
    assert not book.book("m", "later", (1,), 4)
    assert book.booked("m")["first"].alone


GB = 1 << 30


def big(index, used=0, others=0, **more):
    return GpuReading(index, memory_total=80 * GB, memory_used=used * GB, others_bytes=others * GB, **more)


def needing(gigabytes, number=1, **more):
    return GpuRequest(number, demand=GpuDemand(memory=int(gigabytes * GB)), **more)


def held(index, gigabytes):
    return HeldGpus((index,), memory=int(gigabytes * GB))


def test_jobs_that_say_what_they_need_share_a_gpu_as_long_as_there_is_memory():
    one = [big(0)]
    assert choose(needing(30), one) == Assigned((0,), 30 * GB, (int(80 * GB * 0.97),))
    assert isinstance(choose(needing(30), one, {"a": held(0, 30)}), Assigned)
    answer = choose(needing(30), one, {"a": held(0, 30), "b": held(0, 30)})
    assert isinstance(answer, Waits)
    assert answer.reason == ("Waits for 1 GPU with 30.0 GB left: no GPU of machine ada is free; GPU 0 is held by a, b "
                             "and has 17.6 GB left.")


def test_an_idle_gpu_goes_first_and_then_the_one_that_has_the_least_left():
    gpus = [big(0), big(1), big(2)]
    assert choose(needing(10), gpus, {"a": held(0, 40), "b": held(1, 60)}).indices == (2,)
    assert choose(needing(10), gpus, {"a": held(0, 40), "b": held(1, 60), "c": held(2, 20)}).indices == (1,)
    assert choose(needing(30), gpus, {"a": held(0, 40), "b": held(1, 60), "c": held(2, 20)}).indices == (0,)
    assert choose(needing(10, 2), gpus, {"a": held(0, 40), "b": held(1, 60)}).indices == (1, 2)


@pytest.mark.parametrize("holder", [(0,), HeldGpus((0,), alone=True)])
def test_a_gpu_that_a_job_holds_as_a_whole_is_not_shared_by_memory(holder):
    assert isinstance(choose(needing(1), [big(0)], {"whole": holder}), Waits)


def test_a_job_that_wants_a_whole_gpu_gets_none_on_which_others_have_memory():
    assert choose(GpuRequest(1), [big(0), big(1)], {"a": held(0, 1)}) == Assigned((1,))


def test_what_others_hold_of_a_gpu_is_counted():
    assert isinstance(choose(needing(30), [big(0, used=50, others=50, processes=1)]), Waits), "active ones are not used"
    active = {"use_active_gpu": True}
    assert isinstance(choose(needing(30, **active), [big(0, used=50, others=50, processes=1)]), Waits)
    assert isinstance(choose(needing(20, **active), [big(0, used=50, others=50, processes=1)]), Assigned)
    unknown = GpuReading(0, 2, 80 * GB, memory_used=60 * GB)  # 40 of them are what the other job said
    assert isinstance(choose(needing(15), [unknown], {"a": held(0, 40)}), Assigned)
    assert isinstance(choose(needing(30), [unknown], {"a": held(0, 40)}), Waits)


def test_a_job_that_takes_more_than_it_said_leaves_less_for_others():
    assert isinstance(choose(needing(20), [big(0, used=70)], {"a": held(0, 10)}), Waits)


def test_what_no_gpu_has_is_given_a_whole_one():
    assert choose(needing(100), [big(0), big(1)], {"a": held(0, 1)}) == Assigned((1,))
    assert choose(needing(1), [GpuReading(0)]) == Assigned((0,)), "its size is not known"


def test_gpus_that_take_one_process_are_not_shared_and_the_number_of_those_who_share_is_limited():
    assert isinstance(choose(needing(1), [big(0, is_exclusive=True)], {"a": held(0, 1)}), Waits)
    eight = {f"job{number}": held(0, 1) for number in range(8)}
    assert isinstance(choose(needing(1), [big(0)], eight), Waits)
    assert isinstance(choose(needing(1, max_trials_per_gpu=9), [big(0)], eight), Assigned)


@given(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=30))
def test_however_jobs_come_and_go_no_gpu_has_more_than_there_is(steps):
    book, gpus = MemoryGpuBook(), [big(0), big(1)]
    for number, (gigabytes, leaves) in enumerate(steps):
        if leaves and book.booked("m"):
            book.free(next(iter(book.booked("m"))))
        choice = choose_gpus(needing(gigabytes), gpus, book.booked("m"), "ada")
        if isinstance(choice, Assigned):
            booking = GpuBooking("m", choice.indices, 1, False, choice.memory, choice.room)
            assert book.book_nodes(f"job{number}", [booking])
        for index in (0, 1):
            assert sum(one.memory for one in book.booked("m").values() if index in one) <= 80 * GB * 0.97


def test_two_who_chose_at_the_same_time_do_not_both_get_what_is_left():
    book = MemoryGpuBook()
    booking = GpuBooking("m", (0,), 1, False, 50 * GB, (77 * GB,))
    assert book.book_nodes("first", [booking])
    assert not book.book_nodes("second", [booking])
    assert book.book_nodes("first", [booking])  # its own is no other's


# --- instances of a GPU that is cut ----------------------------------------------------------

CUT = (GpuReading(1, memory_total=40 * GB), GpuReading(100020, memory_total=20 * GB, parent=0),
       GpuReading(100090, memory_total=5 * GB, parent=0))


@pytest.mark.parametrize(("request_", "expected"), [
    (GpuRequest(1), (1,)), (GpuRequest(1, gpu_indices=(0,)), (100020,)),
    (GpuRequest(1, gpu_indices=(100090,)), (100090,)),
    (GpuRequest(2, for_each=1, gpu_indices=(0,)), (100020, 100090)), (GpuRequest(3, for_each=1), (1, 100020, 100090))])
def test_an_instance_is_a_gpu_and_the_index_of_its_gpu_names_all_of_them(request_, expected):
    assert choose_gpus(request_, CUT, {}, "ada") == Assigned(expected)


def test_a_trial_with_several_gpus_gets_no_instances_because_cuda_shows_a_process_one():
    answer = choose_gpus(GpuRequest(2), CUT, {}, "ada")
    assert isinstance(answer, Impossible)
    assert (answer.reason.code, answer.reason.arguments["has"]) == ("too_few_gpus", 1)


def test_instances_are_booked_and_shared_by_memory_like_gpus():
    waits = choose_gpus(GpuRequest(1, gpu_indices=(0,)), CUT, {"a": (100020,), "b": (100090,)}, "ada")
    assert isinstance(waits, Waits)
    needs = GpuRequest(1, gpu_indices=(0,), demand=GpuDemand(memory=6 * GB))
    chosen = choose_gpus(needs, CUT, {"a": HeldGpus((100020,), memory=6 * GB)}, "ada")
    assert isinstance(chosen, Assigned)
    assert (chosen.indices, chosen.memory) == ((100020,), 6 * GB)
