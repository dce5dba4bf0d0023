"""The object that each kind of experiment file becomes, compared with the approved one and checked by the schemas.

To approve what is made now: ``python -m tests.trainingservice.kubernetes.test_kubernetes_manifests``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from nniweb.experiments.config import parse_experiment_config
from tests.fakes.kubernetes.adaptdl import ADAPTDL_KINDS
from tests.fakes.kubernetes.api import KubernetesApiDouble
from tests.fakes.kubernetes.framework import FRAMEWORK_KINDS
from tests.fakes.kubernetes.kubeflow import KUBEFLOW_KINDS, MPI_KINDS, MPI_V2_KINDS, TRAINER_KINDS
from tests.fakes.kubernetes.schemas import MPIJOB_V2, SCHEMAS
from tests.fakes.kubernetes.validation import metadata_causes, schema_causes
from trainingservice.base import ServiceContext
from trainingservice.platforms import load_platform
from trainingservice.trial_job import HyperParameters, JobApplicationForm, KeeperAccess, TrialJobDetail
from trainingservice.trial_job_status import TrialJobStatus

CASES = Path(__file__).parent / "manifests"
NAMES = sorted(path.stem for path in CASES.glob("*.yml"))


def manifest(case: str, folder: Path) -> dict:
    """What the case's file makes of a trial, on a cluster that has what the file asks for."""
    shutil.copytree(CASES, folder / "files")
    base = folder / "files"
    (base / "search_space.json").write_text('{"x": {"_type": "uniform", "_value": [0, 1]}}')
    (base / "registry.json").write_text('{"auths": {}}')
    (base / "storage").mkdir()
    az = folder / "bin" / "az"
    az.parent.mkdir()
    az.write_text("#!/bin/sh\n[ \"$4 $5\" = '--vault-name my-vault' ] && echo a2V5\n")
    az.chmod(0o755)
    text = (CASES / f"{case}.yml").read_text().replace("STORAGE", str(base / "storage"))
    settings = parse_experiment_config(text, base).settings
    section = settings.training_service
    assert section is not None
    kinds = TRAINER_KINDS if "trainer" in case else KUBEFLOW_KINDS | FRAMEWORK_KINDS | ADAPTDL_KINDS | (
        MPI_V2_KINDS if "v2beta1" in case else MPI_KINDS)
    path, os.environ["PATH"] = os.environ["PATH"], f"{az.parent}:{os.environ['PATH']}"
    try:
        with KubernetesApiDouble(folder / "cluster", kinds=kinds) as cluster:
            own = section.settings.model_copy(update={"kubeconfig": cluster.kubeconfig})
            service = load_platform(section.platform)(own, ServiceContext("thecluster", folder / "state"))
            form = JobApplicationForm(
                job_name="tabcdefghijk", trial_job_id="tabcdefghijk", experiment_id="eabcdefghijk", sequence_id=0,
                hyper_parameters=HyperParameters("{}"), command=settings.trial_command,
                keeper=KeeperAccess(("http://nniweb.example.org:8080",), "the token"),
                gpu_number=settings.trial_gpu_number, options=section.options)
            job = TrialJobDetail(form.job_name, TrialJobStatus.WAITING, form, 0.0)
            submission = service.submission
            made = submission.manifest_of(job, service.roles_of(job), submission.delivery(section.options))
            service.clean_up()
    finally:
        os.environ["PATH"] = path
    text = json.dumps(made, indent=1, sort_keys=True)
    return json.loads(re.sub(r"keeper-[0-9a-f]{16}", "keeper-HASH", text))  # changes with each change of the keeper


@pytest.mark.parametrize("case", NAMES)
def test_a_file_becomes_the_approved_object(case: str, tmp_path: Path) -> None:
    made = manifest(case, tmp_path)
    assert made == json.loads((CASES / f"{case}.json").read_text())


@pytest.mark.parametrize("case", NAMES)
def test_the_approved_object_is_right_by_the_schema_and_fits_the_names(case: str) -> None:
    approved = json.loads((CASES / f"{case}.json").read_text())
    plural = f"{approved['kind'].lower()}s"
    assert metadata_causes(approved) == []
    schema = MPIJOB_V2 if approved["apiVersion"] == "kubeflow.org/v2beta1" else SCHEMAS[plural]
    assert schema_causes(approved, schema) == []


@pytest.mark.parametrize("case", NAMES)
def test_no_secret_and_no_text_of_the_users_stands_in_the_object(case: str) -> None:
    text = (CASES / f"{case}.json").read_text()
    assert "the token" not in text
    assert "mnist.py" not in text
    assert "$(" not in text


if __name__ == "__main__":
    for name in NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            approved_text = json.dumps(manifest(name, Path(scratch)), indent=1, sort_keys=True)
        (CASES / f"{name}.json").write_text(approved_text + "\n")
