"""Runs trials as processes of this machine, in the twelve members of NNI's TrainingService and nothing else."""

import os
import shutil
import threading
from dataclasses import replace
from subprocess import Popen

from trainingservice.base import TrainingService
from trainingservice.errors import UnknownTrialJob
from trainingservice.nni_module import folder_for_trials
from trainingservice.trial_job import TrialJobDetail, TrialJobMetric
from trainingservice.trial_job_status import TrialJobStatus as Status


class SmallTrainingService(TrainingService):
    platform = "small"
    pinned_to_host = True  # trials run as the server's user, so not everybody may use it
    is_multi_phase_job_supported = False

    def __init__(self, settings, context):
        super().__init__(settings, context)
        self.jobs, self.processes, self.ends, self.emitted, self.metadata = {}, {}, {}, {}, {}
        self.listeners, self.now, self.closed = set(), context.clock, threading.Event()

    def list_trial_jobs(self):
        return list(self.jobs.values())

    def get_trial_job(self, job_name):
        if job_name not in self.jobs:
            raise UnknownTrialJob(job_name)
        return self.jobs[job_name]

    def add_trial_job_metric_listener(self, listener):
        self.listeners.add(listener)

    def remove_trial_job_metric_listener(self, listener):
        self.listeners.discard(listener)

    def submit_trial_job(self, form):
        name, folder, now = form.job_name, self.context.state_folder / form.job_name, self.now()
        shutil.unpack_archive(form.code.archive, folder, "gztar", filter="data")
        (folder / "parameter.cfg").write_text(form.hyper_parameters.value)
        env = {"NNI_PLATFORM": "local", "NNI_EXP_ID": form.experiment_id, "NNI_TRIAL_JOB_ID": form.trial_job_id,
               "NNI_TRIAL_SEQ_ID": str(form.sequence_id), "NNI_SYS_DIR": folder, "NNI_OUTPUT_DIR": folder,
               "PATH": os.environ["PATH"], "PYTHONPATH": folder_for_trials(str(folder)), **form.environment}
        self.processes[name] = Popen(f"exec >log 2>&1;{form.command}", shell=True, cwd=folder, env=env, process_group=0)
        return self.jobs.setdefault(name, TrialJobDetail(name, Status.RUNNING, form, now, now, url=folder.as_uri()))

    def update_trial_job(self, job_name, form):
        return self.get_trial_job(job_name)

    def cancel_trial_job(self, job_name, is_early_stopped=False):
        self.ends[job_name] = Status.EARLY_STOPPED if is_early_stopped else Status.USER_CANCELED
        if self.get_trial_job(job_name) and self.processes[job_name].returncode is None:
            os.killpg(self.processes[job_name].pid, 9)

    def set_cluster_metadata(self, key, value):
        self.metadata[key] = value

    def get_cluster_metadata(self, key):
        return self.metadata.get(key, "")

    def run(self):
        while not self.closed.wait(0.1):
            for name in [job.id for job in self.list_trial_jobs() if job.status == Status.RUNNING]:
                code = self.processes[name].poll()  # before the metrics are read: then none come after the end
                file = self.context.state_folder / name / ".nni" / "metrics"
                lines = file.read_text().split("\n")[:-1] if file.exists() else []
                for line in lines[self.emitted.get(name, 0):]:  # ME, six digits, NNI's metric object
                    [listener(TrialJobMetric(name, line[8:])) for listener in tuple(self.listeners)]
                self.emitted[name] = len(lines)
                if code is not None:
                    end = self.ends.get(name, Status.FAILED if code else Status.SUCCEEDED)
                    self.jobs[name] = replace(self.jobs[name], status=end, end_time=self.now(), exit_code=code)

    def clean_up(self):
        self.closed.set()
        list(map(self.cancel_trial_job, self.jobs))
