"""What a configuration file may say about a Ray cluster, and about one experiment's jobs there.

NNI has no such platform. The address and how we prove who we are is the cluster; resources and runtime environment are
what one experiment asks of it. Words inside ``runtimeEnv`` are Ray's own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from trainingservice.cluster_settings import ClusterSettings, TrialOptions
from trainingservice.memory_size import Megabytes
from trainingservice.refused_values import matching
from trainingservice.rest.web_address import token_of_one_word, web_address
from trainingservice.words.shown_value import shown

ResourceName = Annotated[str, StringConstraints(max_length=200), matching(
    r"[^\s\x00-\x1f](.*[^\s\x00-\x1f])?", "the name of a resource without blanks at its ends")]
#: One line of ``headers``: a name of HTTP, and a value of plain characters.
_HEADER = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}):[ \t]*([!-~](?:[ -~]*[!-~])?)[ \t]*")
#: Resources that have fields of their own.
_OWN_FIELDS = {"CPU": "cpus", "GPU": "trialGpuNumber", "memory": "memory"}
#: Ray counts in ten-thousandths.
_LEAST_SHARE = 0.0001
#: Parts of a runtime environment that come by the code archive, and what else the server cannot bring.
_BROUGHT_OTHERWISE = ("working_dir", "excludes")
#: Variables with these beginnings are the keeper's.
OWN_VARIABLES = ("NNI_", "NNIWEB_", "RAY_JOB_STOP_")
#: Characters of a runtime environment as JSON: each job carries it, and Ray's head keeps all jobs in memory.
_LONGEST_RUNTIME_ENV = 32 * 1024


def _can_be_given(amount: float) -> bool:
    return amount < 1 or amount == int(amount)


class RayClusterSettings(ClusterSettings):
    """One Ray cluster, by the address of its dashboard."""

    platform_name: ClassVar[str] = "ray"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "address", "rights": "token", "version": "address"}

    address: str = Field(max_length=2000, description="Address of the dashboard, which has the Jobs API. Without "
                                                      "http:// or https:// it means http://. Ray's own port is 8265.")
    token: SecretStr | None = Field(
        default=None, min_length=1, max_length=8192,
        description="The cluster's token, if it was started with RAY_AUTH_MODE=token.")
    headers: SecretStr | None = Field(
        default=None, min_length=1, max_length=32 * 1024,
        description="Further headers of each request, one a line, such as X-Access-Key: 123, for a proxy in front of "
                    "the dashboard that wants a log-in.")
    ca_file: Path | None = Field(
        default=None, description="PEM file of the authority that signed the dashboard's certificate, if it is a "
                                  "private one.")

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value, "http", what="the address of the dashboard,", example="http://ray.lab.example:8265")

    @field_validator("token")
    @classmethod
    def _is_one_word(cls, value: SecretStr | None) -> SecretStr | None:
        return token_of_one_word(value)

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: SecretStr | None) -> SecretStr | None:
        names = [name.lower() for name, _ in _headers_of(value)]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"has the header {shown(twice[0])} twice; leave one of them out")
        return value

    @model_validator(mode="after")
    def _one_log_in(self) -> Self:
        if self.token is not None and any(name.lower() == "authorization" for name, _ in _headers_of(self.headers)):
            raise ValueError("token is sent as the header Authorization, which headers has, too; leave one of them out")
        return self

    def request_headers(self) -> dict[str, str]:
        """What is sent with each request: secrets."""
        own = {} if self.token is None else {"Authorization": f"Bearer {self.token.get_secret_value()}"}
        return {**own, **dict(_headers_of(self.headers))}


def _headers_of(text: SecretStr | None) -> list[tuple[str, str]]:
    """Names and values. Raises ValueError, which shows no value."""
    found = []
    for number, line in enumerate([] if text is None else text.get_secret_value().splitlines(), 1):
        if not line.strip():
            continue
        header = _HEADER.fullmatch(line)
        if header is None:
            raise ValueError(f"line {number} is no header; each line must be a name, a colon and a value, such as "
                             "X-Access-Key: 123")
        found.append((header[1], header[2]))
    return found


class RayTrialOptions(TrialOptions):
    """What one experiment asks of the cluster for each of its jobs."""

    cpus: float = Field(default=1, ge=0, le=99_999, description="CPU cores of each job. A job that asks for nothing at "
                                                                "all runs on the head node.")
    gpus: float | None = Field(
        default=None, ge=0, le=99_999, description="GPUs of each job: a whole number, or a share below 1 of one GPU. "
                                                   "Default: trialGpuNumber.")
    memory: Megabytes | None = Field(
        default=None, ge=1, description='Memory of each job: megabytes, or a size with its unit such as "8gb". Ray '
                                        "counts with it and does not enforce it. Default: Ray does not count it.")
    resources: dict[ResourceName, Annotated[float, Field(ge=_LEAST_SHARE, le=1e9, allow_inf_nan=False)]] = Field(
        default={}, max_length=50, description="Custom resources of each job: the name that ray start --resources gave "
                                               "them, and how much of it.")
    runtime_env: dict[str, Any] = Field(
        default={}, description="Ray's runtime environment for each job, in Ray's own words: pip, uv, conda, env_vars "
                                "and so on. The code comes from trialCodeDirectory, so working_dir is not among them.")
    python: Annotated[str, StringConstraints(min_length=1, max_length=1000), matching(
        r"[^\s'\"$`\\]+", "a command without blanks and quotes")] = Field(
        default="python3", description="The Python that runs the trial's keeper on the nodes: 3.8 or newer.")

    def gpus_of_a_trial(self, gpu_number: int | None) -> int:
        return math.ceil(self.asked_gpus(gpu_number))

    def with_gpus(self, gpu_number: int | None) -> Self:
        return self if self.gpus is not None else self.model_copy(update={"gpus": gpu_number})

    def asked_gpus(self, gpu_number: int | None) -> float:
        """GPUs of each job, where trialGpuNumber is ``gpu_number``."""
        return float(gpu_number or 0) if self.gpus is None else self.gpus

    @field_validator("gpus")
    @classmethod
    def _is_a_share(cls, value: float | None) -> float | None:
        if value is not None and not _can_be_given(value):
            raise ValueError(f"is {value:g}, but Ray gives whole GPUs, or a share of one that is less than 1")
        return value

    @field_validator("resources")
    @classmethod
    def _has_no_field(cls, value: dict[str, float]) -> dict[str, float]:
        for name in value:
            if name in _OWN_FIELDS:
                raise ValueError(f"{name} has a field of its own; give it in {_OWN_FIELDS[name]}")
            if not _can_be_given(value[name]):
                raise ValueError(f"{name} must be a whole number, or less than 1: Ray gives no other shares")
        return value

    @field_validator("runtime_env")
    @classmethod
    def _can_be_sent(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in _BROUGHT_OTHERWISE:
            if name in value:
                raise ValueError(f"{name} cannot be given: the code comes from trialCodeDirectory, and .nniignore says "
                                 "what of it is left out")
        for name in ("pip", "uv", "conda"):
            given = value.get(name)
            if isinstance(given, str) and (name != "conda" or given.endswith((".yml", ".yaml"))):
                raise ValueError(f"{name} names a file, which the cluster does not have; write its content here, such "
                                 f"as {name}: [torch]" if name != "conda" else
                                 "conda names a file, which the cluster does not have; write its content here, or the "
                                 "name of an environment that all nodes have")
        variables = value.get("env_vars", {})
        if not isinstance(variables, dict):
            raise ValueError("env_vars must be a group of variables, such as {OMP_NUM_THREADS: \"4\"}")
        for name, text in variables.items():
            if not isinstance(text, str):
                raise ValueError(f"env_vars: {shown(name)} must be text; put its value in quotes")
            if str(name).startswith(OWN_VARIABLES):
                raise ValueError(f"env_vars: {shown(name)} is a name that the server itself sets; choose another one")
        try:
            length = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            raise ValueError("must have texts, numbers, lists and groups alone") from None
        if length > _LONGEST_RUNTIME_ENV:
            raise ValueError(f"must have fewer than {_LONGEST_RUNTIME_ENV} characters as JSON, not {length}: each job "
                             "carries it")
        return value
