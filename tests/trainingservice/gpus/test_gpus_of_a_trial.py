"""How many GPUs one trial asks for in all: what counts towards quotas."""

import pytest

from trainingservice.frameworkcontroller.config import FrameworkControllerTrialOptions
from trainingservice.kubeflow.config import KubeflowTrialOptions
from trainingservice.local.config import LocalTrialOptions
from trainingservice.slurm.config import SlurmTrialOptions


@pytest.mark.parametrize(("gres", "number", "gpus"), [
    (None, 2, 2), (None, None, 0), ("gpu:a100:4,shard:2", 1, 4), ("gpu", None, 1), ("gpu:3,gpu:a100:1", None, 4),
    ("fpga:2", 1, 0)])
def test_on_slurm_generic_resources_count_instead_of_the_number(gres, number, gpus):
    assert SlurmTrialOptions(gres=gres).gpus_of_a_trial(number) == gpus


def test_where_trials_have_roles_the_gpus_of_all_their_pods_count():
    kubeflow = KubeflowTrialOptions.model_validate(
        {"master": {"replicas": 1, "gpuNumber": 2}, "worker": {"replicas": 3}})
    assert kubeflow.gpus_of_a_trial(None) == 2
    assert kubeflow.gpus_of_a_trial(1) == 5
    roles = [{"name": "worker", "taskNumber": 4, "gpuNumber": 2}, {"name": "ps", "taskNumber": 2, "gpuNumber": 0}]
    assert FrameworkControllerTrialOptions.model_validate({"taskRoles": roles}).gpus_of_a_trial(3) == 8


def test_elsewhere_the_number_of_the_experiment_counts():
    assert LocalTrialOptions().gpus_of_a_trial(2) == 2
    assert LocalTrialOptions().gpus_of_a_trial(None) == 0
