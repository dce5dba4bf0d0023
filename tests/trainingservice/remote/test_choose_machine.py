"""The choice among machines by itself: which one gets a trial, which one is kept for a large one, and the reasons."""

from dataclasses import replace

import pytest

from trainingservice.gpus.gpu_slots import GpuReading, HeldGpus, Impossible, Waits
from trainingservice.machine_shares.shares import MachineShare, room_of
from trainingservice.remote.scheduling import MachineView, Placed, choose_machine, choose_machines, machines_to_keep
from trainingservice.trial_job import GpuDemand

FOUR = tuple(map(GpuReading, range(4)))
ADA, BOB = (MachineView(name, name, gpus=FOUR) for name in ("ada", "bob"))


def holding(machine, *gpus):
    """The machine with trials that hold these GPUs, one each."""
    return replace(machine, booked={f"job{number}": (gpu,) for number, gpu in enumerate(gpus)})


@pytest.mark.parametrize(("number", "machines", "expected"), [
    (1, (holding(ADA, 0), BOB), Placed("bob", (0,))),
    (2, (holding(ADA, 0, 2), holding(BOB, 0, 1, 2)), Placed("ada", (1, 3))),
    (4, (holding(ADA, 3), BOB), Placed("bob", (0, 1, 2, 3))),
    (1, (replace(ADA, failures=1), holding(BOB, 0, 1, 2)), Placed("bob", (3,))),
    (1, (replace(holding(ADA, 0, 1), max_trials_per_gpu=2), holding(BOB, 0)), Placed("ada", (0,))),
    (1, (replace(ADA, gpu_indices=(2,)),), Placed("ada", (2,))),
    (1, (replace(ADA, gpus=(GpuReading(0, 3), GpuReading(1))),), Placed("ada", (1,))),
    (1, (replace(ADA, gpus=(GpuReading(0, 3),), use_active_gpu=True),), Placed("ada", (0,))),
    (0, (replace(ADA, trials=1, cpu_count=2), replace(BOB, trials=1, cpu_count=8)), Placed("bob")),
    (None, (replace(ADA, problem="It is away."), replace(BOB, trials=9)), Placed("bob")),
], ids=["least loaded", "enough free", "all four", "failing comes last", "relative load", "gpuIndices",
        "used by others", "useActiveGpu", "by its processors", "one is away"])
def test_a_trial_goes_to_the_machine_that_fits_best(number, machines, expected):
    assert choose_machine(number, machines) == expected


def test_a_trial_that_waits_says_what_each_machine_lacks():
    waits = choose_machine(2, (holding(ADA, 0, 1, 2), replace(BOB, problem="It is away."),
                               replace(BOB, name="cyd", gpus=None), replace(BOB, name="dan", has_gpus=False)))
    assert isinstance(waits, Waits)
    assert waits.reason.startswith("Waits for 2 GPUs: 1 GPU of machine ada is free; GPU 0 is held by job0;")
    for words in ("bob: It is away", "cyd: its GPUs are being read", "dan has no nvidia-smi on its PATH"):
        assert words in waits.reason


def test_what_no_machine_can_ever_do_is_impossible():
    refused = choose_machine(5, (ADA, BOB))
    assert isinstance(refused, Impossible)
    assert "which asks for 5 GPUs: This trial asks for 5 GPUs, but machine ada has 4 GPUs" in refused.reason


def test_the_machine_that_is_kept_is_left_to_the_large_trial():
    machines = (holding(ADA, 0), holding(BOB, 0, 1, 2))
    assert choose_machine(1, machines) == Placed("ada", (1,))
    assert choose_machine(1, machines, kept=("ada",)) == Placed("bob", (3,))
    waits = choose_machine(1, (holding(ADA, 0), holding(BOB, 0, 1, 2, 3)), kept=("ada",))
    assert isinstance(waits, Waits)
    assert "ada is reserved for a trial that asks for more GPUs and has waited longer" in waits.reason


@pytest.mark.parametrize(("number", "machines", "kept"), [
    (4, (holding(ADA, 0, 1), holding(BOB, 0)), "bob"),
    (4, (holding(ADA, 0), holding(BOB, 1)), "ada"),
    (2, (replace(ADA, gpu_indices=(0, 1), booked={"job": (0,)}), holding(BOB, 0, 1, 2, 3)), "ada"),
    (4, (replace(ADA, gpus=FOUR[:2]), holding(BOB, 0, 1, 2)), "bob"),
    (4, (replace(ADA, problem="It is away."), replace(BOB, gpus=None)), None),
    (4, (replace(ADA, gpus=(*FOUR[:3], GpuReading(3, 1))), holding(BOB, 0, 1)), "ada"),
], ids=["fewest missing", "the first of equals", "gpuIndices", "large enough", "none can be asked", "used by others"])
def test_gpus_are_kept_where_the_fewest_are_missing(number, machines, kept):
    assert machines_to_keep(number, machines) == ((kept,) if kept else ())


def test_machines_are_kept_for_each_node_of_a_trial():
    machines = (holding(ADA, 0, 1), holding(BOB, 0), replace(holding(BOB, 0, 1, 2), address="cyd"))
    assert machines_to_keep(4, machines, 2) == ("bob", "ada")


def test_nodes_of_a_trial_go_to_different_machines_or_to_none():
    cyd = replace(BOB, address="cyd", name="cyd")
    assert choose_machines(2, 2, (holding(ADA, 0), BOB, cyd)) == [Placed("bob", (0, 1)), Placed("cyd", (0, 1))]
    waits = choose_machines(3, 2, (holding(ADA, 0, 1, 2), BOB, cyd))
    assert isinstance(waits, Waits)
    assert (waits.reason.code, waits.reason.arguments["free"], len(waits.reason.arguments["machines"])) == (
        "nodes_busy", 2, 1)
    assert "Waits for 3 machines with 2 GPUs each, of which 2 have room: 1 GPU of machine ada is free" in waits.reason
    away = choose_machines(3, None, (replace(ADA, problem="It is away."), BOB, cyd))
    assert isinstance(away, Waits)


def test_more_nodes_than_machines_that_can_ever_run_one_are_impossible():
    never = choose_machines(3, 2, (ADA, BOB, replace(BOB, address="dan", name="dan", has_gpus=False)))
    assert isinstance(never, Impossible)
    assert never.reason.arguments["fit"] == 2
    assert "dan" in never.reason
    assert isinstance(choose_machines(3, None, (ADA, BOB)), Impossible)


def test_a_trial_that_ran_out_of_gpu_memory_goes_where_the_gpus_are_larger():
    small = replace(ADA, gpus=(GpuReading(0, memory_total=16 << 30),))
    large = replace(holding(BOB, 0), gpus=(GpuReading(0, memory_total=80 << 30), GpuReading(1, memory_total=80 << 30)))
    assert choose_machine(1, (small, large)) == Placed("ada", (0,))
    assert choose_machine(1, (small, large), demand=GpuDemand(alone=True)) == Placed("bob", (1,))
    refused = choose_machine(1, (small, replace(small, name="cyd")), demand=GpuDemand(True, 16 << 30))
    assert isinstance(refused, Impossible)
    assert {one["code"] for one in refused.reason.arguments["machines"]} == {"gpus_too_small"}


GB = 1024 ** 3


def full(machine, cpus, memory):
    """The machine with room for four CPUs and 8 GB, of which one job holds so much."""
    return replace(machine, room=MachineShare(4.0, 8 * GB), booked={"job0": HeldGpus(share=MachineShare(cpus, memory))})


@pytest.mark.parametrize("number", [None, 0, 1])
def test_a_trial_goes_where_its_memory_and_its_cpus_are_left(number):
    choice = choose_machine(number, (full(ADA, 0.0, 6 * GB), full(BOB, 2.0, 0)), share=MachineShare(2.0, 4 * GB))
    assert isinstance(choice, Placed)
    assert choice.address == "bob"


def test_a_trial_that_waits_for_memory_says_where_how_much_is_left():
    waits = choose_machine(None, (full(ADA, 0.0, 6 * GB), full(BOB, 3.5, 0)), share=MachineShare(1.0, 4 * GB))
    assert isinstance(waits, Waits)
    assert waits.reason.code == "machines_busy"
    assert [(one["code"], one["machine"], one["free_cpus"], one["free_memory"])
            for one in waits.reason.arguments["machines"]] == [
        ("machine_share_held", "ada", 4.0, 2 * GB), ("machine_share_held", "bob", 0.5, 8 * GB)]
    assert "other trials have the rest of machine ada, 4 CPUs and 2.0 GB are left" in waits.reason


def test_a_trial_that_no_machine_can_ever_have_is_refused():
    never = choose_machine(1, (full(ADA, 0.0, 0),), share=MachineShare(0.0, 9 * GB))
    assert isinstance(never, Impossible)
    assert never.reason.arguments["machines"][0]["code"] == "machine_too_small"
    assert "may have 8.0 GB of memory of machine ada" in never.reason


def test_each_node_finds_its_memory_on_a_machine_of_its_own():
    share = MachineShare(1.0, 4 * GB)
    placed = choose_machines(2, None, (full(ADA, 0, 0), full(BOB, 0, 0)), share=share)
    assert [one.address for one in placed] == ["ada", "bob"]
    assert isinstance(choose_machines(2, None, (full(ADA, 0, 6 * GB), full(BOB, 0, 0)), share=share), Waits)


@pytest.mark.parametrize(("about", "given", "expected"), [
    ({}, (None, None), MachineShare()), ({"for_trials": None}, (2.0, None), MachineShare(2.0, 0)),
    ({"for_trials": {"cpus": 8.0, "memory": 7 * GB}}, (None, None), MachineShare(8.0, 7 * GB)),
    ({"for_trials": {"cpus": 8.0, "memory": None}}, (0.5, 512), MachineShare(0.5, GB // 2))])
def test_trials_have_what_the_machine_tells_unless_its_administrator_says_otherwise(about, given, expected):
    assert room_of(about, *given) == expected
