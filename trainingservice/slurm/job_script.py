"""The job that is handed to sbatch: its options, and the shell text that runs the keeper on the compute node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from trainingservice.slurm.config import SlurmTrialOptions
from trainingservice.trial_job import JobApplicationForm
from trialkeeper import contract
from trialkeeper.rank_launcher import FAILED_RANK_FILE, RANKS_FILE

#: What batch script and keeper print, in the attempt's folder.
OUTPUT_FILE = "slurm.out"
#: Holds the number of the Slurm job to which the attempt belongs.
OWNER_FILE = "slurm_job"
#: Laid by the service: run number n may begin (after Slurm queued the job again).
AGAIN_FILE = "again-{}"
#: Exit status of a job whose attempt belongs to another one, as the keeper's own; and of one without Python.
NOT_OURS, NO_PYTHON = 82, 69
#: What of an attempt's folder belongs to one run.
_OF_ONE_RUN = (contract.JOURNAL_FILE, contract.ACCEPTED_FILE, contract.ORDERS_FILE, contract.KEEPER_FILE,
               contract.TRIAL_FILE, contract.GROUP_FILE, contract.EXIT_FILE, contract.ACCESS_FILE, contract.WAY_FILE,
               contract.STDOUT_FILE, contract.STDERR_FILE, contract.KEEPER_LOG_FILE, contract.WAKE_FILE,
               contract.NNI_FOLDER, contract.CODE_FOLDER, RANKS_FILE, FAILED_RANK_FILE, "node[0-9]*")
_PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(16, 7, -1)), "/usr/local/bin/python3",
            "/usr/bin/python3", "python")
_FIND_PYTHON = f"""
for nniweb_python in @FIRST@ {' '.join(_PYTHONS)}; do
    if command -v "$nniweb_python" >/dev/null 2>&1 &&
        "$nniweb_python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then break; fi
    nniweb_python=
done
if [ -z "$nniweb_python" ]; then
    echo "There is no Python 3.8 or newer on the node $(uname -n); load one in prepareCommand, or name its folder in" \\
        "pythonPath." >&2
    exit {NO_PYTHON}
fi
"""
_CLAIM = f"""
cd @FOLDER@ || exit 73
# one job owns the attempt: if the answer to a submission was lost, there may be a second job
(set -C; echo "$SLURM_JOB_ID" >{OWNER_FILE}) 2>/dev/null
if [ "$(cat {OWNER_FILE})" != "$SLURM_JOB_ID" ]; then
    echo "Slurm job $(cat {OWNER_FILE}) runs this trial; this job ends." >&2
    exit {NOT_OURS}
fi
"""
_RUN_AGAIN = f"""
nniweb_run=${{SLURM_RESTART_COUNT:-0}}
if [ "$nniweb_run" -gt 0 ]; then
    # move the files of the previous run aside, and wait until the server allows this run to begin
    if mkdir "before-$nniweb_run" 2>/dev/null; then
        for nniweb_file in {' '.join(_OF_ONE_RUN)}; do
            [ ! -e "$nniweb_file" ] || mv "$nniweb_file" "before-$nniweb_run/"
        done
    fi
    while [ ! -e "again-$nniweb_run" ] && [ ! -e {contract.CANCELED_FILE} ]; do sleep 1; done
fi
"""

#: When Slurm ends the job, in seconds since 1970; empty where that is not known. It tells its jobs since version 22.05.
_PLACE_UNTIL = f"""
export {contract.ENV_PLACE_UNTIL}="${{SLURM_JOB_END_TIME:-$(date -d "$(@SQUEUE@ -h -j "$SLURM_JOB_ID" -o %e \
    2>/dev/null)" +%s 2>/dev/null)}}"
"""


def sbatch_options(options: SlurmTrialOptions, gpu_number: int | None, gpu_memory: int = 0) -> list[str]:
    """What the experiment asks of the cluster, for sbatch's command line. ``gpu_memory``: bytes that the trial needs of
    its GPU, 0: all.
    """
    chosen = [("--partition", options.partition), ("--account", options.account), ("--qos", options.qos),
              ("--constraint", options.constraint), ("--reservation", options.reservation),
              ("--mem", options.trial_memory_size and f"{options.trial_memory_size}M"), ("--time", options.time_limit),
              ("--gres", options.gres or _gpus(options, gpu_number, gpu_memory))]
    return [f"--nodes={options.nodes}", *_tasks(options), f"--cpus-per-task={options.trial_cpu_number}",
            *(f"{name}={value}" for name, value in chosen if value)]


def _tasks(options: SlurmTrialOptions) -> list[str]:
    """One for each node."""
    return [f"--ntasks={options.nodes}", "--ntasks-per-node=1"] if options.nodes > 1 else ["--ntasks=1"]


def _gpus(options: SlurmTrialOptions, number: int | None, memory: int) -> str | None:
    if not number:
        return None
    shards = options.shards_for(number, memory)
    if shards is not None:
        return f"shard:{shards}"
    return f"gpu:{options.gpu_type}:{number}" if options.gpu_type else f"gpu:{number}"


def job_options(form: JobApplicationForm, options: SlurmTrialOptions, name: str, folder: str,
                installation: str, gpu_memory: int = 0) -> list[str]:
    """All of sbatch's command line for one attempt: no secret is in it."""
    return [f"--job-name={name}", f"--comment=nniweb:{installation}", f"--chdir={folder}",
            f"--output={folder}/{OUTPUT_FILE}", "--open-mode=append",
            "--requeue" if options.requeue else "--no-requeue", *sbatch_options(options, form.gpu_number, gpu_memory)]


def lines_of_options(options: SlurmTrialOptions) -> str:
    """The user's own lines, where what stands on the command line wins over them."""
    return "".join(f"#SBATCH {line}\n" for line in options.sbatch_lines)


def prepared(options: SlurmTrialOptions) -> str:
    """Shell text: the user's preparation, and the variable nniweb_python."""
    preparation = ""
    if options.prepare_command:
        preparation = f"{options.prepare_command}\nnniweb_status=$?; [ $nniweb_status -eq 0 ] || {{\n" \
                      'echo "prepareCommand ended with status $nniweb_status." >&2; exit $nniweb_status; }\n'
    first = shlex.join([f"{options.python_path}/python3", f"{options.python_path}/python"]) if options.python_path \
        else ""
    return preparation + _FIND_PYTHON.replace("@FIRST@", first)


def job_script(options: SlurmTrialOptions, keeper: str, folder: str, variables: Mapping[str, str],
               program_folder: str | None = None) -> str:
    """The batch script of one attempt. ``variables``: of the keeper, no secret among them.

    Of a trial with several nodes the batch process has srun start a keeper on each. An end that a keeper wrote down is
    no bad exit, so that srun ends all ranks only where a keeper was killed.
    """
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    return ("#!/bin/sh\n" + lines_of_options(options) + _CLAIM.replace("@FOLDER@", shlex.quote(folder)) + _RUN_AGAIN
            + prepared(options) + exports + _place_until(variables, program_folder)
            + f'exec "$nniweb_python" -I -S {shlex.quote(keeper)} {_verb(options, program_folder)}\n')


def _place_until(variables: Mapping[str, str], program_folder: str | None) -> str:
    """Shell text, of a job that stays as a warm place."""
    squeue = f"{program_folder}/squeue" if program_folder else "squeue"
    return _PLACE_UNTIL.replace("@SQUEUE@", squeue) if contract.ENV_PLACE in variables else ""


def _verb(options: SlurmTrialOptions, program_folder: str | None) -> str:
    if options.nodes == 1:
        return "run"
    srun = f"{program_folder}/srun" if program_folder else "srun"
    return shlex.join(["ranks", srun, f"--nodes={options.nodes}", f"--ntasks={options.nodes}", "--ntasks-per-node=1",
                       "--distribution=block", f"--cpus-per-task={options.trial_cpu_number}", "--kill-on-bad-exit=1",
                       "--wait=0", "--mpi=none", "--export=ALL"])
