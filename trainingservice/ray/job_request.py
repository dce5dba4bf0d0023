"""The request that submits one trial: a pure function of what is asked. Nothing here talks to the cluster.

Ray runs the entrypoint in a shell on one of its nodes. All that the job is told is in variables of its runtime
environment: Ray prints the entrypoint into the job's log and shows it on its dashboard.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from trainingservice.keeper.end_in_output import keep_and_tell
from trainingservice.keeper.fetched_keeper import FETCH, keeper_path
from trainingservice.keeper.keeper_variables import authority_text, keeper_variables
from trainingservice.ray.config import OWN_VARIABLES, RayTrialOptions
from trainingservice.ray.watchman import JOB_VARIABLE, WATCH
from trainingservice.trial_job import JobApplicationForm
from trialkeeper import contract

#: By these our jobs are told from others, in Ray's metadata of a job.
INSTALLATION_KEY, EXPERIMENT_KEY, TRIAL_KEY = "nniweb_installation", "nni_experiment", "nni_trial"
#: Variables with the job's script, and with the authority behind the server's certificate.
SCRIPT_VARIABLE, AUTHORITY_VARIABLE = "NNI_RAY_SCRIPT", "NNI_RAY_AUTHORITY"
#: How long Ray waits between TERM and KILL when a job is stopped: whole seconds. Its default of 3 is too short for a
#: keeper that has a grace period to give and a last report to send.
STOP_WAIT_VARIABLE = "RAY_JOB_STOP_WAIT_TIME_S"
#: Seconds that a keeper is given beyond the longest end of its trial.
TIME_TO_TELL = 15
#: All that Ray's pages and the job's log show of it.
ENTRYPOINT = f'exec sh -c "${SCRIPT_VARIABLE}"'
#: What the trial's own Ray workers would be given of the job's runtime environment: not the keeper's variables.
_OWN_ENVIRONMENT = f"""\
import json, os
config = json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])
variables = (config.get("runtime_env") or {{}}).get("env_vars")
if variables:
    config["runtime_env"]["env_vars"] = {{name: variables[name] for name in variables
                                         if not name.startswith(tuple({json.dumps(OWN_VARIABLES)}))}}
print(json.dumps(config))
"""


def job_request(form: JobApplicationForm, installation: str) -> dict[str, Any]:
    """The body of the request. Raises PermanentError where the server's authority cannot be read."""
    options = cast(RayTrialOptions, form.options)
    given: Mapping[str, Any] = options.runtime_env
    variables = {
        **(given.get("env_vars") or {}), **keeper_variables(form, "", form.keeper.urls), SCRIPT_VARIABLE: _script(form),
        STOP_WAIT_VARIABLE: str(math.ceil(form.longest_end) + TIME_TO_TELL)}
    del variables[contract.ENV_FOLDER]  # it is made there
    if authority := authority_text(form.keeper):
        variables[AUTHORITY_VARIABLE] = authority
    return {
        "entrypoint": ENTRYPOINT,
        "submission_id": form.job_name,
        "runtime_env": {**given, "env_vars": variables},
        "metadata": {INSTALLATION_KEY: installation, EXPERIMENT_KEY: form.experiment_id, TRIAL_KEY: form.job_name,
                     "job_name": f"trial {form.sequence_id} of experiment {form.experiment_id}"},
        "entrypoint_num_cpus": options.cpus,
        "entrypoint_num_gpus": options.asked_gpus(form.gpu_number),
        "entrypoint_memory": (options.memory or 0) * 1024 ** 2,
        "entrypoint_resources": dict(options.resources),
    }


def asked_resources(gpu_number: int | None, options: RayTrialOptions) -> dict[str, float]:
    """What one job asks for, by Ray's names of resources."""
    asked = {"CPU": options.cpus, "GPU": options.asked_gpus(gpu_number),
             "memory": float((options.memory or 0) * 1024 ** 2), **options.resources}
    return {name: amount for name, amount in asked.items() if amount}


def _script(form: JobApplicationForm) -> str:
    """Lines of sh. The attempt's files are in a folder of their own, which is removed when the job has ended."""
    python = cast(RayTrialOptions, form.options).python
    return f"""\
trap 'exit 143' TERM INT
command -v {python} >/dev/null || {{ echo 'This node has no {python}, which the keeper of the trial needs (3.8 or \
newer). Correct python in the section of the platform.' >&2; exit 127; }}
unset {SCRIPT_VARIABLE} {STOP_WAIT_VARIABLE}
folder=$(mktemp -d) || exit 1
{python} - $$ {form.job_name} "$folder" <<'END_OF_THE_WATCH' || exit 1
{WATCH}END_OF_THE_WATCH
export {JOB_VARIABLE}={form.job_name} {contract.ENV_FOLDER}="$folder/{form.job_name}"
if [ -n "$RAY_JOB_CONFIG_JSON_ENV_VAR" ]; then
RAY_JOB_CONFIG_JSON_ENV_VAR=$({python} - <<'END_OF_THE_CONFIG'
{_OWN_ENVIRONMENT}END_OF_THE_CONFIG
) || exit 1
fi
if [ -n "${AUTHORITY_VARIABLE}" ]; then
export {contract.ENV_CA}="$folder/ca.pem"
printf '%s' "${AUTHORITY_VARIABLE}" > "${contract.ENV_CA}" || exit 1
unset {AUTHORITY_VARIABLE}
fi
{python} - "$folder/keeper.pyz" {keeper_path(form.job_name)} <<'END_OF_THE_FETCHER' || exit $?
{FETCH}END_OF_THE_FETCHER
{keep_and_tell(f'{python} "$folder/keeper.pyz" run', f'"$folder/{form.job_name}/{contract.EXIT_FILE}"')}"""
