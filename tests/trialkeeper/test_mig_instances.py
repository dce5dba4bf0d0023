"""Instances of a GPU that is cut (MIG) are GPUs of their own: read, named to CUDA, watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trialkeeper.keeper_run import KeeperRun
from tests.trialkeeper.test_gpu_readings import Program, program, recorded
from trialkeeper import contract
from trialkeeper.gpu_usage import names_for_cuda, read_gpus
from trialkeeper.smi_program import NoGpuReading

__all__ = ["program"]
MIB = 1024 ** 2
CUT, WHOLE = "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "GPU-feba7e40-d724-01ff-b00f-3a439a28a6c7"
#: index, uuid, utilization, used and total MiB, errors, pending, mode, name
ROWS = (f"0, {CUT}, [N/A], 2098, 40960, 0, No, Default, NVIDIA A100-SXM4-40GB\n"
        f"1, {WHOLE}, 7, 4, 40960, 0, No, Default, NVIDIA A100-SXM4-40GB\n")


def answers(**changed: tuple[str, int]) -> dict[str, tuple[str, int]]:
    known = {"query-gpu": (ROWS, 0), "compute-apps": (f"{CUT}, 4711, 2048\n", 0),
             "L": (recorded("nvidia-smi_mig_list.txt"), 0), "x": (recorded("nvidia-smi_mig.xml"), 0), **changed}
    return {{"L": "-L", "x": "-q -x"}.get(word, word): answer for word, answer in known.items()}


def test_the_instances_stand_in_place_of_their_gpu(program: Program) -> None:  # noqa: F811
    program("nvidia-smi", answers())
    gpus = read_gpus()
    assert [(gpu["index"], gpu.get("parent"), gpu["memory_total"], gpu["memory_used"], gpu["processes"],
             gpu.get("memory_of")) for gpu in gpus] == [
        (1, None, 40960 * MIB, 4 * MIB, 0, None),
        (100020, 0, 19968 * MIB, 2085 * MIB, 1, {4711: 2048 * MIB}), (100090, 0, 4864 * MIB, 12 * MIB, 0, {})]
    assert [gpu["name"] for gpu in gpus[1:]] == [
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"]


def test_cuda_is_given_an_instance_by_its_id_and_a_gpu_by_its_index(program: Program) -> None:  # noqa: F811
    program("nvidia-smi", answers())
    assert names_for_cuda([100090]) == ["MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb"]
    assert names_for_cuda([1, 100020]) == ["1", "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"]
    with pytest.raises(NoGpuReading, match="number 100100 is not there any more"):
        names_for_cuda([100100])


def test_without_instances_nobody_asks_for_them(program: Program) -> None:  # noqa: F811
    program("nvidia-smi", answers(**{"query-gpu": (ROWS.replace("[N/A]", "3"), 0), "L": ("", 9), "x": ("", 9)}))
    assert [gpu["index"] for gpu in read_gpus()] == [0, 1]
    assert names_for_cuda([0, 1]) == ["0", "1"]


def test_a_gpu_whose_utilization_is_not_told_need_not_be_cut(program: Program) -> None:  # noqa: F811
    program("nvidia-smi", answers(L=(f"GPU 0: NVIDIA A100 (UUID: {CUT})\n", 0), x=("", 9)))
    assert [gpu["index"] for gpu in read_gpus()] == [0, 1]


@pytest.mark.parametrize(("said", "words"), [
    (("", 9), "exit code 9"), (("<nvidia", 0), "XML that is not understood"),
    (("<nvidia_smi_log><gpu><uuid>GPU-x</uuid></gpu></nvidia_smi_log>", 0), "not how much memory it has")])
def test_a_gpu_that_is_cut_is_never_taken_for_a_whole_one(program: Program, said, words: str) -> None:  # noqa: F811
    program("nvidia-smi", answers(x=said))
    with pytest.raises(NoGpuReading, match=words):
        read_gpus()


def test_a_trial_on_an_instance_sees_it_alone(program: Program, keeper: KeeperRun, server, tmp_path: Path,  # noqa: F811
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    program("nvidia-smi", answers())
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    assert keeper.run("echo sees $CUDA_VISIBLE_DEVICES", gpu_indices=[100020]) == 0
    assert (keeper.folder / contract.STDOUT_FILE).read_text() == "sees MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f\n"


def test_a_trial_whose_instance_was_removed_meanwhile_does_not_start(
        program: Program, keeper: KeeperRun, server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    program("nvidia-smi", answers())
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:/usr/bin:/bin")
    keeper.run("echo never", gpu_indices=[100100])
    assert server.ended["reason"] == "not_started"
    assert "is not there any more" in server.ended["message"]
