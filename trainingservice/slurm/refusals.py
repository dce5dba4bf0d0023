"""What it means that sbatch refused a job: wait, try again, correct something, or look whether it took it after all.

Source: the error texts of Slurm 22.05 (``slurm_strerror``). sbatch ends with 1 for all of them.
"""

from __future__ import annotations

from trainingservice.errors import PermanentError, TemporaryError, TrainingServiceError
from trainingservice.polling.service import MustWait
from trainingservice.reasons import Reason
from trainingservice.submit_host.host import Finished, NotRun, Unanswered
from trainingservice.words.shown_value import shown

#: The controller may have taken the job: its answer was lost.
_UNCERTAIN = ("socket timed out", "zero bytes were transmitted", "receive failure", "shutdown failure",
              "received zero length message", "failed to send entire message", "unexpected message received")
#: The controller was not reached, or did not look at the job.
_AWAY = ("connect failure", "send failure", "find an address", "standby", "authentication agent", "munge",
         "authentication credential", "i/o error writing script", "internal error", "unable to create job record",
         "incompatible versions", "unable to connect to database", "configuration file", "slurm.conf")
#: There is no room now; later there may be.
_FULL = ("submitjob", "submit_job", "maxsubmit", "temporarily unable to accept", "not available now",
         "inactive or drain", "down, drained or reserved", "not usable now", "try again")
_FAILED = "submission failed: "


def refusal(done: Finished, where: str) -> TrainingServiceError:
    """The error for a run of sbatch that printed no job id."""
    said = done.said
    words = (done.errors or done.output).lower()
    if done.status < 0 or any(text in words for text in _UNCERTAIN):
        return Unanswered(f"It is not known whether Slurm accepted the job: sbatch on {where} printed "
                          f"{shown(said, 300)}. The "
                          "server looks for the job before it submits it again.")
    if any(text in words for text in _AWAY):
        return NotRun(f"Slurm does not answer on {where}: {said}")
    if any(text in words for text in _FULL):
        return MustWait(Reason("platform_quota", said=f"Slurm accepts no further jobs at the moment: {_reason(done)}",
                               platform="Slurm"), retry_after=30.0)
    if "sbatch" in words:
        return PermanentError(f"Slurm refuses the job: {_reason(done)}. Correct the experiment's options, or ask the "
                              "cluster's administrators.")
    if done.status:
        return TemporaryError(f"sbatch could not be run on {where}; it ended with status {done.status}: {said}")
    return Unanswered(f"sbatch on {where} printed no job id ({shown(said, 300)}). The server looks for the job "
                      "before it submits "
                      "it again.")


def _reason(done: Finished) -> str:
    """The lines that say why, without sbatch's name before each."""
    lines = [line.strip() for line in done.errors.splitlines() if line.strip()]
    told = [line.partition(": error: ")[2] or line.removeprefix("sbatch: ") for line in lines
            if not line.startswith("Try ")]
    short = [line.partition(_FAILED)[2] or line for line in told]
    return ("; ".join(dict.fromkeys(short)) or done.said)[:400].rstrip(".")
