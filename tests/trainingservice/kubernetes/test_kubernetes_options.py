"""What a role of a trial may say, and what its pods ask for then."""

from __future__ import annotations

from typing import Any

import pytest

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base.kind import Role
from trainingservice.kubernetes_base.pod_template import resources_of
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess


def test_a_role_may_ask_for_no_cpus_as_files_of_nni_do() -> None:
    worker = JobTrialOptions.model_validate({"worker": {"cpuNumber": 0, "memorySize": "1gb"}}).worker
    assert resources_of(Role("worker", worker, "true", None, 0)) == {"memory": "1024Mi"}


@pytest.mark.parametrize(("checkpoints", "seconds"), [(None, 5.0), ({"grace": 60.0}, 90.0), ({}, 30.0)])
def test_a_pod_has_time_for_a_last_checkpoint(checkpoints: Any, seconds: float) -> None:
    form = JobApplicationForm(
        job_name="tabcdefghijk", trial_job_id="tabcdefghijk", experiment_id="eabcdefghijk", sequence_id=0,
        hyper_parameters=HyperParameters("{}"), command="true", keeper=KeeperAccess((), ""), checkpoints=checkpoints)
    assert form.longest_end == seconds
