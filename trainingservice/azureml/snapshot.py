"""The code folder of jobs: keeper, start script and, where it does not come from the server, the trial's code.

The same for all trials of an experiment, so that the service stores it once: nothing of a single trial is in it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from trainingservice.code.code_archive import archive_of
from trainingservice.keeper.end_in_output import END_MARK, keep_and_tell
from trainingservice.keeper.keeper_bundle import keeper_bytes
from trainingservice.trial_job import TrialCode
from trialkeeper import contract, pod

KEEPER, START, CODE, AUTHORITY = "keeper.pyz", "start.sh", "code.tar.gz", "authority.pem"
COMMAND = f"exec sh {START}"  # a signal for the command reaches the script
#: Variables of the job: what to run (JSON), where it is not fetched from the server.
JOB_VARIABLE = "NNI_KEEPER_JOB_TEXT"

CLAIM = "claim.py"
#: Tag of a run whose trial has begun.
CLAIM_TAG = "nniweb_trial_started"
#: Exit status of ``claim.py`` where the trial has begun in an earlier start of this job.
ALREADY_STARTED = 82

#: Where the server cannot be asked, the run's own tags say whether its trial has begun. Python 3.8, standard library.
_CLAIM = f"""\
import json, os, sys, urllib.request

tracking = os.environ.get("MLFLOW_TRACKING_URI", "").split("?")[0]
run, token = os.environ.get("MLFLOW_RUN_ID", ""), os.environ.get("MLFLOW_TRACKING_TOKEN", "")
if not (tracking.startswith("azureml://") and run and token):
    sys.exit("nobody tells where this run's tags are: the trial is started all the same")
base = tracking.replace("azureml://", "https://", 1).replace("/mlflow/v1.0/", "/mlflow/v2.0/") + "/api/2.0/mlflow/runs/"


def call(path, document=None):
    request = urllib.request.Request(
        base + path, None if document is None else json.dumps(document).encode(),
        {{"Authorization": "Bearer " + token, "Content-Type": "application/json"}})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


try:
    tags = (call("get?run_id=" + run)["run"].get("data") or {{}}).get("tags") or []
    if any(tag.get("key") == "{CLAIM_TAG}" for tag in tags):
        sys.exit({ALREADY_STARTED})
    call("set-tag", {{"run_id": run, "key": "{CLAIM_TAG}", "value": "1"}})
except Exception as error:
    sys.exit("this run's tags cannot be read (%s): the trial is started all the same" % type(error).__name__)
"""
_AGAIN = {"reason": "lost", "exit_code": None, "signal": None, "message":
          "The node was lost, and Azure ML started the job again. A trial runs only once. Rerun the trial."}

#: On the node: with the job's name behind it, the folder of the keeper.
FOLDER = "/tmp/nniweb-"
_START = f"""\
# Starts the trial's keeper. Its files are on the node's own disk; the exit code is the trial's.
command -v python3 >/dev/null || {{
    echo "The image has no python3, which the trial's keeper needs (3.8 or newer); choose an image that has it." >&2
    exit 127
}}
folder={FOLDER}"${contract.ENV_JOB}"
mkdir -m 700 "$folder" 2>/dev/null || folder=$(mktemp -d)  # the job ran here before
[ ! -f {AUTHORITY} ] || export {contract.ENV_CA}="$PWD/{AUTHORITY}"
export {pod.ENV_STORAGE}="$PWD" {pod.ENV_END_FILE}="$folder/end.json" {contract.ENV_FOLDER}="$folder/attempt"
if [ -n "${{{JOB_VARIABLE}:-}}" ]; then
    printf '%s' "${JOB_VARIABLE}" > "$folder/job.json"
    export {pod.ENV_JOB_FILE}="$folder/job.json"
    unset {JOB_VARIABLE}
    python3 {CLAIM}
    if [ $? = {ALREADY_STARTED} ]; then
        echo '{END_MARK}{json.dumps(_AGAIN)}'
        exit {ALREADY_STARTED}
    fi
fi
{keep_and_tell(f"python3 {KEEPER} pod", '"$folder/end.json"')}"""


def working_directory_of(job_name: str) -> str:
    """Where the trial of a job runs, on its node."""
    return f"{FOLDER}{job_name}/attempt/{contract.CODE_FOLDER}"


def snapshot_key(sha256: str | None, authority: str = "") -> str:
    """What one snapshot is told from others by. ``sha256``: of the code in it, None where there is none in it."""
    if sha256 is None:
        return "keeper" + hashlib.sha256(authority.encode()).hexdigest() if authority else "keeper"
    return sha256


def make_snapshot(folder: Path, code: TrialCode | None, with_code: bool, authority: str = "") -> Path:
    """Fill ``folder`` (which is replaced) with what jobs need. Raises PermanentError where code is missing, OSError.

    ``authority``: PEM text of the private authority behind the server's certificate, for keepers that call it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".snapshot-"))
    try:
        (fresh / KEEPER).write_bytes(keeper_bytes())
        (fresh / START).write_text(_START)
        (fresh / CLAIM).write_text(_CLAIM)
        if authority:
            (fresh / AUTHORITY).write_text(authority)
        if with_code and code is not None:
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                shutil.copyfile(archive_of(code, Path(scratch))[0], fresh / CODE)
        # an ignore file of its own, so that none of a folder above is obeyed
        (fresh / ".amlignore").write_text("")
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder
