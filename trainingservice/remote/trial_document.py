"""What a keeper runs on a machine: the trial's command, with what the settings put around it."""

from __future__ import annotations

import shlex

from trainingservice.keeper.container_images import put_container
from trainingservice.remote.config import RemoteClusterSettings, RemoteMachineSettings
from trainingservice.trial_job import TrialJobDetail, job_document
from trialkeeper import contract


def trial_document(job: TrialJobDetail, platform: str, cluster: RemoteClusterSettings, machine: RemoteMachineSettings,
                   home: str, code: contract.CodeDocument | None,
                   container: contract.ContainerDocument | None = None) -> contract.JobDocument:
    """``home``: the home folder there. In a container neither pythonPath nor prepareCommand have a meaning: both are
    about the machine.
    """
    if container is not None:
        document = job_document(job.form, platform=platform, code=code, gpu_indices=job.gpu_indices)
        document["environment"] = {**machine.environment, **document["environment"]}
        put_container(document, container)
        return document
    path = []
    if machine.python_path is not None:
        path = [machine.python_path if machine.python_path.startswith("/") else home + machine.python_path[1:]]
    document = job_document(job.form, platform=platform, code=code, gpu_indices=job.gpu_indices, path=path)
    document["environment"] = {**machine.environment, **document["environment"]}
    if cluster.shared_storage is not None:
        storage = cluster.shared_storage.at_home(home)
        output = storage.trial_folder(job.form.experiment_id, job.form.trial_job_id)
        document["environment"] = {**document["environment"], **storage.variables}
        document["command"] = (f"{storage.mount_script(storage.remote_mount_point)}\n"
                               f"NNI_OUTPUT_DIR={shlex.quote(output)}; export NNI_OUTPUT_DIR\n"
                               f"mkdir -p \"$NNI_OUTPUT_DIR\" || exit 73\n{document['command']}")
    if machine.prepare_command:
        document["command"] = f"{machine.prepare_command}\n_nniweb=$?; [ $_nniweb -eq 0 ] || exit $_nniweb\n" \
                              f"{document['command']}"
    return document
