"""The worked examples of the page, with programs that print what the schedulers' manuals show."""

import os
import re
from pathlib import Path

import pytest
import yaml

from trainingservice.command.config import CommandClusterSettings
from trainingservice.command.scheduler import Scheduler
from trainingservice.submit_host.host import ThisMachine
from trainingservice.trial_job_status import TrialJobStatus

PAGE = Path(__file__).resolve().parents[3] / "docs" / "platforms" / "command.md"
NAME = "t0123456789a"
ASKED = {"GPUS": "1", "CPUS": "4", "MEMORY_MB": "2048", "ARGUMENTS": "", "JOB_FOLDER": "/shared/job"}
QSTAT_PBS = """
pbs01:
                                                                                                   Req'd  Req'd   Elap
Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time
------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----
1204.pbs01                     ada             workq           t0123456789a    12345       1     4    2gb   --  R 00:01
1205.pbs01                     ada             workq           other           --          1     1    --    --  Q   --
"""
QSTAT_SGE = """
job-ID  prior   name       user         state submit/start at     queue                          slots ja-task-ID
-----------------------------------------------------------------------------------------------------------------
   1204 0.55500 t012345678 ada          r     11/21/2026 10:00:00 all.q@node1                        4
       Full jobname:     t0123456789a
       Master Queue:     all.q@node1
   1205 0.00000 other      ada          qw    11/21/2026 10:00:01                                    1
       Full jobname:     other
"""
NOT_OF_R = re.compile(r"^ {7}.*\n", re.MULTILINE)
#: Chapter -> programs: what each prints, by the beginning of its arguments.
PROGRAMS = {
    "PBS": {"qsub": {"": "1204.pbs01"}, "qstat": {"-u": QSTAT_PBS}, "qdel": {"1204": ""},
            "qselect": {f"-N {NAME}": "1204.pbs01", "-N": ""}},
    "LSF": {"bsub": {"": "Job <1204> is submitted to queue <normal>."},
            "bjobs": {"-noheader -o jobid stat": "1204       RUN\n1205       PEND",
                      "-noheader -o jobid job_name": f"1204       {NAME}\n1205       other"}, "bkill": {"1204": ""}},
    "SGE": {"qsub": {"-terse": "1204"}, "qstat": {"-r": QSTAT_SGE, "": NOT_OF_R.sub("", QSTAT_SGE)},
            "qdel": {"1204": ""}},
    "HTCondor": {"condor_submit": {"-terse -": "1204.0 - 1204.0"}, "condor_rm": {"1204": ""},
                 "condor_q": {"-af ClusterId JobStatus": "1204 2 undefined\n1205 1 undefined",
                              f'-constraint NNIWebName == "{NAME}"': "1204", "-constraint": ""}},
}


@pytest.fixture(params=PROGRAMS)
def example(request, tmp_path, monkeypatch):
    """The scheduler as the page has it, and the file in which its programs note how they were called."""
    calls = tmp_path / "calls"
    for program, answers in PROGRAMS[request.param].items():
        cases = "".join(f"'{begin}'*) cat <<'END-OF-ANSWER'\n{text}\nEND-OF-ANSWER\n;;\n"
                        for begin, text in answers.items())
        path = tmp_path / "programs" / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{program} $*" >>"{calls}"\n[ "$*" != "-terse -" ] || cat >>"{calls}"\n'
                        f'[ ! -e "{tmp_path}/away" ] || exit 1\ncase "$*" in\n{cases}*) exit 2;;\nesac\n')
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    [chapter] = [text for text in PAGE.read_text().split("\n## ") if text.startswith(request.param)]
    section = yaml.safe_load(chapter.split("```yaml\n")[1].split("```")[0])["trainingService"]
    fields = {field.alias for field in CommandClusterSettings.model_fields.values()}
    settings = CommandClusterSettings(**{name: value for name, value in section.items() if name in fields})
    return Scheduler(settings, ThisMachine()), calls


def test_the_commands_of_the_page_are_understood(example, tmp_path):
    scheduler, calls = example
    job_id = scheduler.submit(NAME, "/shared/job/job.sh", ASKED)
    assert job_id == "1204"
    said = calls.read_text()
    assert "/shared/job/job.sh" in said
    assert NAME in said
    assert re.search(r"(ncpus=|-n |smp |request_cpus = )4\b", said)
    assert re.search(r"(ngpus=|num=|gpu=|request_gpus = )1\b", said)
    assert "2048" in said
    listed = scheduler.listed(["1204", "1205", "1206"])
    assert listed.is_whole
    assert {job: seen.status for job, seen in listed.seen.items()} == {"1204": TrialJobStatus.RUNNING,
                                                                      "1205": TrialJobStatus.WAITING}
    assert scheduler.find(NAME) == ["1204"]
    assert scheduler.find("tffffffffff") == []
    scheduler.cancel("1204")
    (tmp_path / "away").touch()
    assert not scheduler.listed(["1204"]).is_whole, "a scheduler that fails vouches for nothing"
