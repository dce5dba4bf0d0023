"""What a role of a trial may say, and what its pods ask for then."""

from __future__ import annotations

from trainingservice.kubernetes.config import JobTrialOptions
from trainingservice.kubernetes_base.kind import Role
from trainingservice.kubernetes_base.pod_template import resources_of


def test_a_role_may_ask_for_no_cpus_as_files_of_nni_do() -> None:
    worker = JobTrialOptions.model_validate({"worker": {"cpuNumber": 0, "memorySize": "1gb"}}).worker
    assert resources_of(Role("worker", worker, "true", None, 0)) == {"memory": "1024Mi"}
