"""The worked examples of the page, with programs that print what the schedulers' manuals show."""

import os
import re

import pytest

from tests.trainingservice.command.page_examples import settings_of
from trainingservice.command.scheduler import Scheduler
from trainingservice.submit_host.host import ThisMachine
from trainingservice.trial_job_status import TrialJobStatus

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
                 "condor_q": {"-af ClusterId JobStatus ifThenElse(isUndefined(HoldReason)": "1204 2 \n1205 1 ",
                              f'-constraint NNIWebName == "{NAME}"': "1204", "-constraint": ""}},
}


@pytest.fixture
def put_programs(tmp_path, monkeypatch):
    """Puts a program on the PATH that has its say and ends with a status."""
    def put(name, said, status):
        path = tmp_path / "programs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ncat >&2 <<'END-OF-ANSWER'\n{said}\nEND-OF-ANSWER\nexit {status}\n" if status else
                        f"#!/bin/sh\ncat <<'END-OF-ANSWER'\n{said}\nEND-OF-ANSWER\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/programs:{os.environ['PATH']}")
    return put


def scheduler_of(name):
    """The scheduler as the page has it."""
    return Scheduler(settings_of(name), ThisMachine())


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
    return scheduler_of(request.param), calls


def test_the_commands_of_the_page_are_understood(example, tmp_path, request):
    scheduler, calls = example
    job_id = scheduler.submit(NAME, "/shared/job/job.sh", ASKED)
    assert job_id == "1204"
    said = calls.read_text()
    assert "/shared/job/job.sh" in said
    assert NAME in said
    assert re.search(r"(ncpus=|-n |smp |request_cpus = )4\b", said)
    assert re.search(r"(ngpus=|num=|gpu=|request_gpus = )1\b", said)
    # SGE takes what is asked for as for each CPU
    assert ("h_vmem=512M" if request.node.callspec.params["example"] == "SGE" else "2048") in said
    listed = scheduler.listed(["1204", "1205", "1206"])
    assert listed.is_whole
    assert {job: seen.status for job, seen in listed.seen.items()} == {"1204": TrialJobStatus.RUNNING,
                                                                      "1205": TrialJobStatus.WAITING}
    assert scheduler.find(NAME) == ["1204"]
    assert scheduler.find("tffffffffff") == []
    scheduler.cancel("1204")
    (tmp_path / "away").touch()
    assert not scheduler.listed(["1204"]).is_whole, "a scheduler that fails vouches for nothing"


def test_an_lsf_without_jobs_is_no_lsf_that_is_away(put_programs):
    put_programs("bjobs", "No unfinished job found", 255)
    scheduler = scheduler_of("LSF")
    assert scheduler.listed(["1204"]).is_whole
    assert scheduler.find(NAME) == []
    put_programs("bjobs", "Failed in LSF library call: Slave LIM configuration is not ready yet", 255)
    assert not scheduler.listed(["1204"]).is_whole


@pytest.mark.parametrize(("letters", "status"), [
    *((letters, TrialJobStatus.WAITING) for letters in ("qw", "hqw", "hRwq", "Rq")),
    *((letters, TrialJobStatus.RUNNING) for letters in ("r", "hr", "t", "Rr", "Rt", "s", "tS", "T", "RtT", "dr")),
    *((letters, TrialJobStatus.FAILED) for letters in ("Eqw", "Ehqw", "EhRqw"))])
def test_the_letters_of_sge_are_understood(put_programs, letters, status):
    row = f"   1204 0.55500 t012345678 ada          {letters:5} 11/21/2026 10:00:00 all.q@node1  4"
    put_programs("qstat", f"job-ID  prior   name\n{'-' * 80}\n{row}", 0)
    assert scheduler_of("SGE").listed(["1204"]).seen["1204"].status is status


def test_a_held_job_of_htcondor_says_why_and_others_say_nothing(put_programs):
    put_programs("condor_q", "1204 5 Error from slot1@node: out of disk\n1205 1 ", 0)
    seen = scheduler_of("HTCondor").listed(["1204", "1205"]).seen
    assert {job: (one.status, one.message) for job, one in seen.items()} == {
        "1204": (TrialJobStatus.WAITING, "Error from slot1@node: out of disk"), "1205": (TrialJobStatus.WAITING, "")}
