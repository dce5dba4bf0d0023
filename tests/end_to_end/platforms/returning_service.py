"""A plug-in in NNI's style, without a keeper, whose jobs outlive the server: the next object reads their files again.

It remembers nothing but those files. So each object emits every metric of a job from the first one on.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import Popen

from my_platform.small_service import SmallTrainingService

from trainingservice.nni_module import folder_for_trials
from trainingservice.testing.processes import end_processes, processes_of
from trainingservice.trial_job import JobApplicationForm, ResumedJob, TrialJobDetail, TrialJobMetric
from trainingservice.trial_job_status import TrialJobStatus as Status

#: The first that comes here runs the command: a submission may be repeated before the process has begun.
SCRIPT = """mkdir begun || exit 0
{{
{command}
}} >log 2>&1
echo $? >exit.new; mv exit.new exit"""


class ReturningService(SmallTrainingService):
    platform = "returning"

    def submit_trial_job(self, form: JobApplicationForm) -> TrialJobDetail:
        name, folder, now = form.job_name, self._folder(form.job_name), self.now()
        if not (folder / "begun").exists():
            shutil.unpack_archive(form.code.archive, folder, "gztar", filter="data")
            (folder / "parameter.cfg").write_text(form.hyper_parameters.value)
            env = {"NNI_PLATFORM": "local", "NNI_EXP_ID": form.experiment_id, "NNI_TRIAL_JOB_ID": form.trial_job_id,
                   "NNI_TRIAL_SEQ_ID": str(form.sequence_id), "NNI_SYS_DIR": folder, "NNI_OUTPUT_DIR": folder,
                   "PATH": os.environ["PATH"], "PYTHONPATH": folder_for_trials(str(folder)), **form.environment}
            # the folder is an argument, so that what runs in it is found
            Popen(["sh", "-c", SCRIPT.format(command=form.command), str(folder)], cwd=folder, env=env,
                  start_new_session=True)
        return self.jobs.setdefault(name, TrialJobDetail(name, Status.RUNNING, form, now, now, url=folder.as_uri()))

    def resume_trial_jobs(self, jobs: Sequence[ResumedJob]) -> None:
        for job in jobs:
            if job.submitted:
                self.jobs[job.detail.id] = replace(job.detail, status=Status.RUNNING)

    def cancel_trial_job(self, job_name: str, is_early_stopped: bool = False) -> None:
        self.ends[job_name] = Status.EARLY_STOPPED if is_early_stopped else Status.USER_CANCELED
        end_processes(processes_of([str(self._folder(job_name))]))

    def run(self) -> None:
        while not self.closed.wait(0.05):
            for job in self.list_trial_jobs():
                if not job.status.is_end:
                    self._look(job)

    def clean_up(self) -> None:
        self.closed.set()

    def _folder(self, job_name: str) -> Path:
        return Path(self.context.state_folder, job_name)

    def _look(self, job: TrialJobDetail) -> None:
        folder = self._folder(job.id)
        code = _text(folder / "exit")  # before the metrics are read: then none come after the end
        lines = _text(folder / ".nni" / "metrics").split("\n")[:-1]
        for line in lines[self.emitted.get(job.id, 0):]:
            for listener in tuple(self.listeners):
                listener(TrialJobMetric(job.id, line[8:]))
        self.emitted[job.id] = len(lines)
        if code or job.id in self.ends:
            end = self.ends.get(job.id, Status.FAILED if int(code) else Status.SUCCEEDED)
            self.jobs[job.id] = replace(job, status=end, end_time=self.now(), exit_code=int(code) if code else None)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""
