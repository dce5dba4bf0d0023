"""The variables with which a keeper is started: who it is, where its folder is, and how it reaches the server."""

from __future__ import annotations

from trainingservice.trial_job import JobApplicationForm
from trialkeeper import contract


def keeper_variables(form: JobApplicationForm, folder: str, urls: tuple[str, ...], *,
                     token_file: str = "") -> dict[str, str]:
    """For the environment of ``python3 keeper.pyz run``.

    ``folder``: of this attempt alone, as the trial's machine sees it. ``urls``: what the keeper calls; () where its
    journal is fetched, and then it needs no token. ``token_file``: a file on the trial's machine that holds the
    token. Without one the token itself is among the variables: they must not go onto a command line, into a log, or
    into a file that others can read.
    """
    variables = {contract.ENV_JOB: form.job_name, contract.ENV_FOLDER: folder}
    if urls:
        variables[contract.ENV_URLS] = ",".join(urls)
        if token_file:
            variables[contract.ENV_TOKEN_FILE] = token_file
        else:
            variables[contract.ENV_TOKEN] = form.keeper.token
    return variables
