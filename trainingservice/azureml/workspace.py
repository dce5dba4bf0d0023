"""Calls to one workspace with the vendor's SDK, which is loaded at the first of them; its errors become sentences."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trainingservice.azureml.config import AzureMlClusterSettings
from trainingservice.azureml.states import of_azure
from trainingservice.errors import PermanentError, TemporaryError
from trainingservice.polling.service import MustWait
from trainingservice.reasons import Reason
from trainingservice.rest.rest_client import LogInRefused
from trainingservice.words.shown_value import shown
from trialkeeper.whole_number import whole_number

INSTALL = "pip install 'nniweb[azure]' (in a checkout of nniweb: -r requirements/azure.txt)"
#: A log-in refused so is tried again after so many seconds.
RETRY_AFTER_REFUSAL = 30.0
#: Seconds until a connection must stand, and until an answer must come; the SDK's own are five minutes each.
CONNECT_TIMEOUT, READ_TIMEOUT = 5, 60
#: Active jobs of the workspace that one question looks through at most.
MOST_LISTED = 1000
#: Pages in a row without a job that was not on an earlier one; more of them have no end.
MOST_BARREN_PAGES = 20
#: The SDK tells the service about the git checkout it runs in, unless these are there.
_NO_GIT = {"mlflow.source.git.branch": "", "mlflow.source.git.commit": ""}


class NoSuchJob(Exception):
    """The workspace has no job of this name."""


class CodeIsGone(TemporaryError):
    """What was uploaded before, for the code or the image, is not in the workspace any more: send it again."""


@dataclass(frozen=True)
class JobRequest:
    """One command job. ``code``: a local folder, or the id of one that was uploaded before; so ``environment``."""

    name: str
    command: str
    compute: str
    code: str
    environment: str
    image: str
    experiment_name: str
    display_name: str
    variables: Mapping[str, str]
    tags: Mapping[str, str]
    inputs: Mapping[str, str] = field(default_factory=dict)
    #: Folders of datastores that are mounted to be written to.
    outputs: Mapping[str, str] = field(default_factory=dict)
    shm_size: str | None = None
    docker_args: str | None = None


@dataclass(frozen=True)
class SeenJob:
    name: str
    status: str
    page: str
    tags: Mapping[str, str]
    code: str
    environment: str


class Workspace:
    """May be used from several threads."""

    def __init__(self, settings: AzureMlClusterSettings) -> None:
        self._settings = settings
        self.where = f"The Azure ML workspace {settings.workspace_name}"
        self._lock = threading.Lock()
        self._made: Any = None
        self._credential: Any = None

    def close(self) -> None:
        with self._lock:
            if self._credential is not None:
                self._credential.close()
            self._made = self._credential = None

    # --- jobs ------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> SeenJob:
        """Raises CodeIsGone, PermanentError, MustWait (quota), TemporaryError."""
        try:
            return self._submit(request)
        except NoSuchJob as error:  # something that the job names
            self._is_there()
            if request.code.startswith("/subscriptions/"):
                raise CodeIsGone(f"{self.where} does not have the code of the job {request.name} any more, or the "
                                 f"image or data it names: {error} It is uploaded again.") from error
            raise PermanentError(f"{self.where} does not have what the job {request.name} names: {error} Correct the "
                                 "environment, computeTarget, dataMounts or writableMounts.") from error

    def _submit(self, request: JobRequest) -> SeenJob:
        client = self._client()
        from azure.ai.ml import Input, Output, command
        from azure.ai.ml.entities import Environment

        with self._sentences(f"the job {request.name}"):
            environment: Any = request.environment or Environment(image=request.image)
            job = command(
                name=request.name, display_name=request.display_name, experiment_name=request.experiment_name,
                command=request.command, code=request.code, environment=environment, compute=request.compute,
                environment_variables=dict(request.variables), tags=dict(request.tags), shm_size=request.shm_size,
                docker_args=request.docker_args,
                inputs={name: Input(type="uri_folder", path=path, mode="ro_mount")
                        for name, path in request.inputs.items()},
                outputs={name: Output(type="uri_folder", path=path, mode="rw_mount")
                         for name, path in request.outputs.items()},
                properties=dict(_NO_GIT))
            return _seen(client.jobs.create_or_update(job))

    def job(self, name: str) -> SeenJob:
        """Raises NoSuchJob; TemporaryError where it is the workspace that is not there."""
        try:
            with self._sentences(f"the job {name}"):
                return _seen(self._client().jobs.get(name))
        except NoSuchJob:
            self._is_there()
            raise

    def jobs(self, most: int | None = MOST_LISTED) -> Iterator[SeenJob]:
        """The workspace's active jobs, newest first, page by page as they are taken; ``most``: None for all.

        Raises TemporaryError, also where its pages do not end.
        """
        try:
            with self._sentences("the list of jobs"):
                for job in islice(_each_once(self._client().jobs.list().by_page()), most):
                    yield _seen(job)
        except NoSuchJob as error:
            raise TemporaryError(f"{self.where} does not list its jobs: {error}",
                                 retry_after=RETRY_AFTER_REFUSAL) from error

    def cancel(self, name: str) -> None:
        """Ask for its end; harmless where it has ended or is not there."""
        try:
            with self._sentences(f"the end of the job {name}"):
                self._client().jobs.begin_cancel(name, polling=False)
        except (NoSuchJob, PermanentError):
            return  # it has ended: its status says so

    def archive(self, name: str) -> None:
        """Hide a job; harmless where it is not there."""
        try:
            with self._sentences(f"the job {name}"):
                self._client().jobs.archive(name)
        except NoSuchJob:
            return

    def _is_there(self) -> None:
        """Raises TemporaryError where the workspace has gone: that says nothing of its jobs, and may be mended."""
        try:
            self.facts()
        except PermanentError as error:
            raise TemporaryError(f"{error} Trials wait.", retry_after=RETRY_AFTER_REFUSAL) from error

    # --- look-ups --------------------------------------------------------------------------

    def facts(self) -> Mapping[str, str]:
        """``location`` and ``discovery_url`` of the workspace."""
        try:
            with self._sentences("the workspace"):
                found = self._client().workspaces.get(self._settings.workspace_name)
        except NoSuchJob:
            raise PermanentError(f"{self.where} does not exist in resource group {self._settings.resource_group} of "
                                 f"subscription {self._settings.subscription_id}; correct the three names.") from None
        return {"location": str(found.location or ""), "discovery_url": str(found.discovery_url or "")}

    def compute_problem(self, name: str) -> str:
        """Why jobs cannot run on a compute, a sentence; "" where they can."""
        try:
            with self._sentences("the compute"):
                found = self._client().compute.get(name)
        except NoSuchJob:
            return f"{self.where} has no compute named {shown(name)}; correct computeTarget."
        state = getattr(found, "provisioning_state", "")
        state = str(getattr(state, "value", state) or "")
        if state in ("Succeeded", ""):
            return ""
        return f"The compute {name} is in the state {state}, in which it runs no jobs. Correct this in the portal."

    def token(self) -> str:
        """A token for Azure's interfaces: a secret."""
        self._client()
        with self._sentences("the log-in"):
            return str(self._credential.get_token(f"{self._resource_manager}.default").token)

    # --- how -------------------------------------------------------------------------------

    @property
    def _resource_manager(self) -> str:
        return (self._settings.resource_manager or "https://management.azure.com").rstrip("/") + "/"

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    def _make(self) -> Any:
        try:
            from azure.ai.ml import MLClient
        except ModuleNotFoundError as error:
            raise PermanentError(f"The azureml platform needs the Python library {error.name}, which is not installed. "
                                 f"Install it with: {INSTALL}") from error
        # of its classes that are experimental, at each start, and of tenants in addresses, at each answer
        logging.getLogger("azure.ai.ml").setLevel(logging.ERROR)
        settings = self._settings
        self._credential = self._log_in()
        more: dict[str, Any] = {}
        if settings.resource_manager is not None:
            address = self._resource_manager
            more = {"cloud": f"nniweb-{urlsplit(address).netloc}", "cloud_metadata": {
                "azure_portal": "https://portal.azure.com/", "resource_manager": address,
                "active_directory": settings.authority_host or "https://login.microsoftonline.com/",
                "aml_resource_id": address, "storage_endpoint": "core.windows.net",
                "registry_discovery_endpoint": address}}
            more["cloud_metadata"]["cloud"] = more["cloud"]
        return MLClient(self._credential, settings.subscription_id, settings.resource_group, settings.workspace_name,
                        enable_telemetry=False, show_progress=False, connection_timeout=CONNECT_TIMEOUT,
                        read_timeout=READ_TIMEOUT, **more)

    def _log_in(self) -> Any:
        from azure.identity import ClientSecretCredential, DefaultAzureCredential, ManagedIdentityCredential

        settings = self._settings
        more: dict[str, Any] = {}
        if settings.authority_host is not None:
            more = {"authority": settings.authority_host, "disable_instance_discovery": True}
        if settings.client_secret is not None:
            return ClientSecretCredential(settings.tenant_id or "", settings.client_id or "",
                                          settings.client_secret.get_secret_value(), **more)
        if settings.managed_identity:
            return ManagedIdentityCredential(client_id=settings.client_id)
        return DefaultAzureCredential(exclude_interactive_browser_credential=True, **more)

    @contextmanager
    def _sentences(self, what: str) -> Iterator[None]:
        """Turn what the SDK raises into the errors of this package."""
        self._client()  # without the SDK there are no errors of it either
        from azure.ai.ml.exceptions import MlException
        from azure.core import exceptions

        try:
            yield
        except exceptions.ResourceNotFoundError as error:
            if error.error is None:  # not in the service's own words: a proxy's page, say
                raise TemporaryError(Reason("another_server", said=(
                    f"{self.where} answered with HTTP 404 and without JSON. Check whether a proxy is in front of "
                    "it."))) from error
            raise NoSuchJob(_first_line(error)) from error
        except exceptions.ClientAuthenticationError as error:
            raise LogInRefused(f"{self.where} does not accept the credentials: {_first_line(error)} Trials wait. "
                               f"{self._what_to_renew()}", retry_after=RETRY_AFTER_REFUSAL) from error
        except (exceptions.DecodeError, json.JSONDecodeError) as error:
            raise TemporaryError(Reason("another_server", said=(
                f"{self.where} did not answer with JSON. Check whether a proxy is in front of it."))) from error
        except exceptions.HttpResponseError as error:
            raise self._refusal(error, what) from error
        except (exceptions.ServiceRequestError, exceptions.ServiceResponseError) as error:
            raise TemporaryError(Reason(
                "unreachable", said=f"{self.where} cannot be reached: {_first_line(error)}")) from error
        except MlException as error:
            raise PermanentError(f"The SDK refuses {what}: {_first_line(error)}") from error

    def _refusal(self, error: Any, what: str) -> Exception:
        status, code = error.status_code, str(getattr(error.error, "code", "") or "")
        said = _first_line(error)
        if status == 403:
            return LogInRefused(Reason("not_permitted", said=(
                f"{self.where} does not permit {what}: {said} Trials wait. Give the server's identity the role AzureML "
                "Data Scientist on the workspace.")), retry_after=RETRY_AFTER_REFUSAL)
        if status in (408, 429) or status is None or status >= 500:
            pause = whole_number(
                (error.response.headers.get("Retry-After") if error.response is not None else None) or "")
            limited = "limits the rate of requests" if status == 429 else \
                f"reports an internal error (HTTP {status}): {said}"
            return TemporaryError(Reason("too_many_calls" if status == 429 else "server_fault",
                                         said=f"{self.where} {limited}. The request is sent again."),
                                  retry_after=None if pause is None else float(min(pause, 3600)))
        if "quota" in code.lower():
            return MustWait(of_azure(
                "platform_quota", f"{self.where} has no quota left for {what}: {said} The submission is tried again. "
                                  "Ask for more quota, or run fewer trials at a time.", code), retry_after=60.0)
        if status < 400:
            return TemporaryError(Reason("another_server", said=(
                f"{self.where} did not answer with JSON ({said}). Check whether a proxy is in front of it.")))
        return PermanentError(f"{self.where} refuses {what} (HTTP {status} {code}): {said}")

    def _what_to_renew(self) -> str:
        if self._settings.client_secret is not None:
            return "Renew the service principal's secret and enter it in the cluster's settings (clientSecret)."
        if self._settings.managed_identity:
            return "Assign this managed identity to the server's machine (clientId names a user-assigned identity), " \
                   "or enter a service principal in the cluster's settings (tenantId, clientId, clientSecret)."
        return "Run az login as the server's user, or give a service principal (tenantId, clientId, clientSecret)."


def _each_once(pages: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """The jobs on the pages of a list. Raises TemporaryError where always the same come."""
    names: set[str] = set()
    barren = 0
    for page in pages:
        new = [job for job in page if job is not None and job.name not in names]
        names.update(job.name for job in new)
        yield from new
        barren = 0 if new else barren + 1
        if barren > MOST_BARREN_PAGES:
            raise TemporaryError("The list of jobs of Azure ML has no end: its pages bring nothing new. It is read "
                                 "again later.", retry_after=RETRY_AFTER_REFUSAL)


def _seen(job: Any) -> SeenJob:
    status = job.status
    return SeenJob(name=str(job.name), status=str(getattr(status, "value", status) or ""),
                   page=str(job.studio_url or ""), tags=dict(job.tags or {}), code=_id(getattr(job, "code", "")),
                   environment=_id(getattr(job, "environment", "")))


def _id(value: Any) -> str:
    return str(value) if isinstance(value, str | os.PathLike) and not Path(value).is_absolute() \
        or isinstance(value, str) and value.startswith("/subscriptions/") else ""


def _first_line(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error).strip() or type(error).__name__
    line = text.splitlines()[0][:300]
    return line if line.endswith((".", "!", "?")) else line + "."
