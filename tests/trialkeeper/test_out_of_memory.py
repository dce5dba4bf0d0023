"""A trial that failed for lack of memory: by the words of frameworks, and by what the kernel counts."""

import signal
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import KeeperRun
from trialkeeper import contract, out_of_memory
from trialkeeper.out_of_memory import KernelKills, found_in

TRACEBACK = "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n"
TORCH = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 "
         "GiB of which 2.75 MiB is free. Process 17 has 3.00 GiB memory in use.")
TENSORFLOW = ("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with "
              "shape[8192,8192] and type float on /job:localhost/replica:0/task:0/device:%s:0 by allocator %s")
XLA = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 858993 bytes."


@pytest.mark.parametrize("line", [
    TORCH, "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB", XLA,
    "RuntimeError: CUDA error: out of memory", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0;",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    TENSORFLOW % ("GPU", "GPU_0_bfc"), "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in "
    "CUDA_ERROR_OUT_OF_MEMORY", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,512 bytes",
    "RuntimeError: MPS backend out of memory (MPS allocated: 17.8 GB", "ResourceExhaustedError: \nOut of memory error "
    "on GPU 0. Cannot allocate 2.0GB", "terminate called after throwing: std::bad_alloc: cudaErrorMemoryAllocation",
    "mxnet.base.MXNetError: cudaMalloc retry failed: out of memory",
    "ncclUnhandledCudaError: Cuda failure 2 'out of memory'"])
def test_frameworks_words_for_a_full_gpu_are_recognised(line: str) -> None:
    found = found_in(f"epoch 3\n{TRACEBACK}{line}\n")
    assert found is not None
    assert found[0] == contract.GPU_MEMORY
    assert found[1] in line.splitlines()


@pytest.mark.parametrize("line", [
    "MemoryError", "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array",
    "terminate called after throwing an instance of 'std::bad_alloc'", TENSORFLOW % ("CPU", "cpu"),
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)",
    "OSError: [Errno 12] Cannot allocate memory", "java.lang.OutOfMemoryError: Java heap space",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=42.batch. Some of the step tasks have been OOM Killed."])
def test_words_for_full_main_memory_are_recognised(line: str) -> None:
    assert found_in(TRACEBACK + line) == (contract.MAIN_MEMORY, line[:out_of_memory.LONGEST_LINE])


@pytest.mark.parametrize("text", [
    "", "epoch 1\nValueError: no such optimizer", "triton.runtime.errors.OutOfResources: out of resource: shared "
    "memory, Required: 180224, Hardware limit: 101376.", "No space left on device",
    "RuntimeError: DataLoader worker (pid 8) is killed by signal: Killed.", "I handle MemoryError here: it is no end",
    "grpc: RESOURCE_EXHAUSTED: Received message larger than max"])
def test_other_failures_are_not_taken_for_it(text: str) -> None:
    assert found_in(text) is None


def test_a_trial_that_went_on_with_a_smaller_batch_and_failed_of_something_else_did_not_run_out() -> None:
    assert found_in(f"{TORCH}\nbatch size 32 now\n{TRACEBACK}ValueError: bad label") is None


def test_what_follows_from_it_does_not_hide_it() -> None:
    chained = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert found_in(f"{TRACEBACK}{TORCH}\n{chained}{TRACEBACK}RuntimeError: training failed\n") is not None
    torchrun = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED"
    assert found_in(f"{TRACEBACK}{TORCH}\n{TRACEBACK}{torchrun}") is not None


def test_what_xla_says_of_a_trial_without_gpus_is_main_memory() -> None:
    assert found_in(XLA, has_gpus=False) == (contract.MAIN_MEMORY, XLA)


def test_the_end_tells_what_ran_out_and_the_line(keeper: KeeperRun, server) -> None:
    assert keeper.run(f"echo '{TORCH}' >&2; exit 1") == 1
    assert server.ended["out_of_memory"] == {"memory": "gpu", "by": "text", "line": TORCH, "gpu_total": None}
    assert keeper.read(contract.EXIT_FILE)["out_of_memory"] == server.ended["out_of_memory"]


def test_a_trial_that_succeeded_has_not_run_out_of_memory_whatever_it_wrote(keeper: KeeperRun, server) -> None:
    assert keeper.run(f"echo '{TORCH}' >&2") == 0
    assert "out_of_memory" not in server.ended


def counting(keeper: KeeperRun, tmp_path: Path) -> Path:
    """The file in which the kernel counts, as this keeper knows it."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\noom 3\noom_kill 2\n")
    keeper.before = (f"import trialkeeper.out_of_memory as o; o._counting_file = lambda: {str(events)!r}")
    return events


@pytest.mark.parametrize(("counted", "is_told"), [(3, True), (2, False)])
def test_a_trial_that_was_killed_while_the_kernel_killed_for_memory_ran_out_of_it(
        keeper: KeeperRun, server, tmp_path: Path, counted: int, is_told: bool) -> None:
    events = counting(keeper, tmp_path)
    assert keeper.run(f"printf 'oom_kill {counted}\\n' > {events}; kill -KILL $$") == 137
    assert server.ended["signal"] == signal.SIGKILL
    expected = {"memory": "main", "by": "kernel", "line": "", "gpu_total": None}
    assert server.ended.get("out_of_memory") == (expected if is_told else None)


def test_a_trial_one_of_whose_processes_the_kernel_killed_ran_out_of_memory(
        keeper: KeeperRun, server, tmp_path: Path) -> None:
    events = counting(keeper, tmp_path)
    line = "RuntimeError: DataLoader worker (pid 8) is killed by signal: Killed."
    assert keeper.run(f"printf 'oom_kill 3\\n' > {events}; echo '{line}' >&2; exit 1") == 1
    assert server.ended["out_of_memory"]["line"] == line


def test_what_the_kernel_counts_can_be_read_on_this_machine() -> None:
    kills = KernelKills()
    assert kills._before is not None
    assert not kills.has_killed()
