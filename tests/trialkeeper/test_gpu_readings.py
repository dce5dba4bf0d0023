"""Readings of GPUs from what drivers say: as usual, with faults, hanging, in forms that are not known, and of AMD."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import wait_until
from trialkeeper import contract, machine, nvidia_smi, smi_program
from trialkeeper.gpu_usage import gpu_program, gpus_of_slurm, read_gpus
from trialkeeper.smi_program import NoGpuReading

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings" / "gpus"
GB = 1024 ** 3
#: index, uuid, utilization, used and total MiB, errors, pending, mode, name
ROW = "{0}, GPU-{0}, 50, 100, 16384, {1}, {2}, Default, NVIDIA A100-SXM4-80GB"

Program = Callable[..., None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Puts a program on the PATH, alone: ``program(name, {a word of its arguments: (what it prints, exit code)})``."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(nvidia_smi, "_DRIVER_FOLDER", str(tmp_path / "none"))
    monkeypatch.setattr(smi_program, "_hanging", {})

    def make(name: str, answers: dict[str, tuple[str, int]], before: str = "") -> None:
        cases = "\n".join(f'*{shlex.quote(word)}*) printf %s {shlex.quote(text)}; exit {code};;'
                          for word, (text, code) in answers.items())
        file = folder / name
        file.write_text(f'#!/bin/sh\n{before}\ncase "$*" in\n{cases}\n*) exit 2;;\nesac\n')
        file.chmod(0o755)

    return make


def recorded(name: str) -> str:
    return (RECORDINGS / name).read_text()


def row(index: int, errors: str = "0", pending: str = "No") -> str:
    return ROW.format(index, errors, pending) + "\n"


def test_a_gpu_with_errors_or_a_pending_reset_is_told_apart_from_one_that_works(program: Program) -> None:
    program("nvidia-smi", {"query-gpu": (row(0) + row(1, "2") + row(2, "2", "Yes") + row(3, "[N/A]", "[N/A]"), 0),
                           "compute-apps": ("GPU-1, 17\nGPU-1, 18\n", 0)})
    gpus = read_gpus()
    assert [(gpu["index"], gpu.get("fault"), gpu.get("memory_errors"), gpu["processes"]) for gpu in gpus] == [
        (0, None, None, 0), (1, None, 2, 2), (2, contract.GPU_NEEDS_RESET, 2, 0), (3, None, None, 0)]
    assert (gpus[0]["name"], gpus[0]["memory_total"]) == ("NVIDIA A100-SXM4-80GB", 16 * GB)


@pytest.mark.parametrize(("said", "fault"), [
    ("[GPU is lost]", contract.GPU_LOST), ("[GPU requires reset]", contract.GPU_NEEDS_RESET),
    ("[Unknown Error]", contract.GPU_LOST)])
def test_a_row_that_says_what_is_wrong_is_a_gpu_with_a_fault(program: Program, said: str, fault: str) -> None:
    values = ", ".join([said] * 6)
    program("nvidia-smi", {"query-gpu": (f"0, GPU-0, {values}, A100\n{row(1)}", 0), "compute-apps": ("", 0)})
    assert [(gpu["index"], gpu.get("fault")) for gpu in read_gpus()] == [(0, fault), (1, None)]


def test_a_gpu_that_fell_off_the_bus_behind_others_is_known_by_its_number(program: Program) -> None:
    program("nvidia-smi", {"query-gpu": (row(0) + recorded("nvidia-smi_lost_behind_another.txt"), 15),
                           "compute-apps": ("", 15)})
    assert [(gpu["index"], gpu.get("fault")) for gpu in read_gpus()] == [(0, None), (1, contract.GPU_LOST)]


@pytest.mark.parametrize(("name", "bus"), [("nvidia-smi_lost.txt", "0000:c3:00.0"),
                                           ("nvidia-smi_unknown_error.txt", "0000:65:00.0")])
def test_where_nvidia_smi_ends_at_a_lost_gpu_the_others_are_asked_one_by_one(
        program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bus: str) -> None:
    for other in (bus, "0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / other).mkdir(parents=True)
    monkeypatch.setattr(nvidia_smi, "_DRIVER_FOLDER", str(tmp_path / "driver"))
    program("nvidia-smi", {f"--id={bus}": (recorded(name), 15), "--id=0000:01": (row(0), 0),
                           "--id=0000:02": (row(2), 0), "query-gpu": (recorded(name), 15), "compute-apps": ("", 15)})
    assert [(gpu["index"], gpu.get("fault")) for gpu in read_gpus()] == [
        (0, None), (1, contract.GPU_LOST), (2, None)]


def test_fields_that_a_driver_does_not_know_are_left_out(program: Program) -> None:
    program("nvidia-smi", {"pending": (recorded("nvidia-smi_unknown_field.txt"), 2),
                           "query-gpu": ("0, GPU-0, 50, 100, 16384, 1, Exclusive_Process, Tesla K40m\n", 0),
                           "compute-apps": ("", 0)})
    [gpu] = read_gpus()
    assert (gpu["name"], gpu["memory_errors"], gpu["exclusive"]) == ("Tesla K40m", 1, True)


@pytest.mark.parametrize("text", [
    "0; GPU-0; 50; 100; 16384; 0; No; A100\n", "0, GPU-0, 50\n", "gpu0, GPU-0, 50, 100, 16384, 0, No, Default, A100\n"])
def test_another_form_is_an_error_and_not_a_machine_without_gpus(program: Program, text: str) -> None:
    program("nvidia-smi", {"query-gpu": (text, 0), "compute-apps": ("", 0)})
    with pytest.raises(NoGpuReading, match="printed a line that is not understood"):
        read_gpus()


def test_warnings_between_the_rows_are_passed_over(program: Program) -> None:
    warning = "WARNING: infoROM is corrupted at gpu 0000:00:04.0\n"
    program("nvidia-smi", {"query-gpu": (warning + row(0) + warning, 0), "compute-apps": ("", 0)})
    assert [gpu["index"] for gpu in read_gpus()] == [0]


@pytest.mark.parametrize(("text", "code"), [
    ("Failed to initialize NVML: Driver/library version mismatch", 18), ("No devices were found", 6)])
def test_what_a_driver_says_when_it_fails_is_told(program: Program, text: str, code: int) -> None:
    program("nvidia-smi", {"query-gpu": (text, code)})
    with pytest.raises(NoGpuReading, match=f"exit code {code}: {text}"):
        read_gpus()


def test_a_driver_that_does_not_answer_is_ended_after_a_while(
        program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trialkeeper.gpu_usage.TIMEOUT", 0.3)
    program("nvidia-smi", {}, before="exec /bin/sleep 60")
    with pytest.raises(NoGpuReading, match="nvidia-smi did not answer within 0 s and was ended"):
        read_gpus()
    assert smi_program.hanging() == {}


def test_one_that_cannot_be_killed_is_left_behind_and_no_other_is_started(
        program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As when it waits in the kernel: nobody can kill it here, either."""
    monkeypatch.setattr("trialkeeper.gpu_usage.TIMEOUT", 1.0)
    monkeypatch.setattr(smi_program, "_KILLED_WITHIN", 0.1)
    starts = tmp_path / "starts"
    program("nvidia-smi", {}, before=f"echo x >> {starts}; exec /bin/sleep 60")
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: None)
    began = time.monotonic()
    with pytest.raises(NoGpuReading, match="hangs and cannot be killed"):
        read_gpus()
    [(pid, start_time)] = smi_program.hanging().values()
    try:
        with pytest.raises(NoGpuReading, match=f"process id {pid}\\) hangs"):
            read_gpus()
        assert time.monotonic() - began < 30
        assert starts.read_text() == "x\n"
    finally:
        kill(pid, 9)
    wait_until(lambda: not machine.process_lives(pid, start_time))
    program("nvidia-smi", {"query-gpu": (row(0), 0), "compute-apps": ("", 0)})
    assert [gpu["index"] for gpu in read_gpus()] == [0]


def test_amds_gpus_are_read_by_amd_smi(program: Program) -> None:
    program("amd-smi", {"metric": (recorded("amd-smi_metric.json"), 0),
                        "process": (recorded("amd-smi_process.json"), 0)})
    first, second = read_gpus()
    assert (first["utilization"], first["memory_used"], first["memory_total"]) == (94, 17153 << 20, 196592 << 20)
    assert (first["processes"], second["processes"], second["utilization"]) == (1, 0, 0)
    assert (gpu_program() or "").endswith("/amd-smi")


def test_amd_smi_without_processes_and_with_other_numbers_of_hip(program: Program) -> None:
    program("amd-smi", {
        "metric": (recorded("amd-smi_metric.json"), 0), "process": (recorded("amd-smi_process_none.json"), 0),
        "static": ('{"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}}]}', 0),
        "list -e": ('[{"gpu": 0, "hip_id": 1}, {"gpu": 1, "hip_id": 0}]', 0)})
    first, second = read_gpus()
    assert (first["memory_used"], second["memory_used"]) == (284 << 20, 17153 << 20)
    assert (second["name"], second["processes"]) == ("AMD Instinct MI300X", 0)


def test_amds_gpus_are_read_by_rocm_smi_where_there_is_no_other(program: Program) -> None:
    program("rocm-smi", {"showpids": (recorded("rocm-smi_pids.json"), 0),
                         "showmeminfo": (recorded("rocm-smi_mi300x.json"), 0)})
    assert read_gpus() == [{"index": 0, "name": "AMD GPU", "utilization": 0, "memory_used": 299687936,
                            "memory_total": 205822885888, "processes": 1}]


def test_what_an_old_rocm_smi_does_not_tell_is_not_known(program: Program) -> None:
    program("rocm-smi", {"showpids": ('{"system": {}}', 0), "showmeminfo": (recorded("rocm-smi_mi250.json"), 0)})
    assert [(gpu["index"], gpu["name"], gpu["utilization"], gpu["memory_total"]) for gpu in read_gpus()] == [
        (0, "AMD INSTINCT MI250 (MCM) OAM AC MBA", 10, None), (1, "AMD INSTINCT MI250 (MCM) OAM AC MBA", 20, None)]


@pytest.mark.parametrize(("text", "code", "why"), [
    ("Invalid platform\n", 0, "printed no JSON: Invalid platform"), ("", 0, "printed no JSON: nothing"),
    ('{"unexpected": 1}', 0, "of a form that is not understood"), ("No AMD GPU", 1, "exit code 1: No AMD GPU")])
def test_an_amd_smi_that_does_not_work_says_why(program: Program, text: str, code: int, why: str) -> None:
    program("amd-smi", {"metric": (text, code)})
    with pytest.raises(NoGpuReading, match=why):
        read_gpus()


def test_a_machine_without_any_of_them_says_so(program: Program) -> None:
    with pytest.raises(NoGpuReading, match="there is no nvidia-smi on the PATH of this machine, nor amd-smi or rocm"):
        read_gpus()
    assert gpu_program() is None


@pytest.mark.parametrize(("environment", "expected"), [
    ({"CUDA_VISIBLE_DEVICES": "0"}, []), ({"SLURM_JOB_ID": "7"}, []),
    ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "2,3"}, [2, 3]),
    ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "-1"}, []),
    ({"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "MIG-c6d4f1ef"}, [])])
def test_the_gpus_of_a_slurm_job_are_those_that_slurm_shows_it(
        environment: dict[str, str], expected: list[int]) -> None:
    assert gpus_of_slurm(environment) == expected
