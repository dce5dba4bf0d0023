"""The variables with which a keeper is started: who it is, where its folder is, and how it reaches the server."""

from __future__ import annotations

import re

from trainingservice.errors import PermanentError
from trainingservice.trial_job import JobApplicationForm, KeeperAccess
from trialkeeper import contract

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\n.+?\n-----END CERTIFICATE-----\n?", re.DOTALL)


def authority_text(access: KeeperAccess) -> str:
    """The PEM text of the private authority behind the server's certificate, and nothing of what else stands in its
    file; "" where machines know the authority. Raises PermanentError.
    """
    if access.ca_file is None:
        return ""
    try:
        text = access.ca_file.read_text(errors="replace")
    except OSError as error:
        raise PermanentError(f"The certificate authority {access.ca_file} cannot be read: {error}.") from error
    return "".join(f"{found.rstrip()}\n" for found in _CERTIFICATE.findall(text.replace("\r\n", "\n"))) or text


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


def place_variables(form: JobApplicationForm, *, folder: str = "", until: float | None = None) -> dict[str, str]:
    """For a keeper whose job stays as a warm place; {} where it ends with its trial.

    ``folder``: for the folders of later trials, which are removed with each one; "": they are beside that of the first
    one and stay. ``until``: when the platform ends the job, in seconds since 1970; None where it does not.
    """
    if form.stays_for is None:
        return {}
    variables = {contract.ENV_PLACE: f"{form.stays_for:g}"}
    if folder:
        variables[contract.ENV_PLACE_FOLDER] = folder
    if until is not None:
        variables[contract.ENV_PLACE_UNTIL] = f"{until:.0f}"
    return variables
