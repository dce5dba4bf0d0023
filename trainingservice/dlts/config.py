"""What a configuration file may say about a DLTS cluster, and about one experiment's jobs there.

NNI has a v1 form only; the second form has the same words in one section.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, SecretStr, StringConstraints, ValidationInfo, field_validator

from trainingservice.cluster_settings import ClusterSettings
from trainingservice.container_path import ContainerPath, is_below
from trainingservice.places.options import REUSE_MODE_MEANING, PlaceOptions
from trainingservice.refused_values import matching
from trainingservice.rest.web_address import web_address

Name = Annotated[str, StringConstraints(min_length=1), matching(r"[^\s/?#]+", "a name without blanks, /, ? and #")]

#: Inside a job of DLTS these say who and where one is; a server that runs as a job needs no settings for it.
TEAM_VARIABLE, EMAIL_VARIABLE, PASSWORD_VARIABLE = "DLWS_VC_NAME", "DLWS_USER_EMAIL", "DLTS_JOB_TOKEN"
_ALIAS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
#: What each job has beside the account's home folder.
MOUNTED_THERE = ("/data", "/work", "/job")


class DltsClusterSettings(ClusterSettings):
    """One account in one team on one cluster, and the home folder that its jobs share with this server."""

    platform_name: ClassVar[str] = "dlts"
    fields_of_checks: ClassVar[Mapping[str, str]] = {
        "connection": "dashboard", "rights": "password", "queue": "team", "folder": "localStorageMountPoint",
        "disk": "localStorageMountPoint"}
    reuse_mode_meaning: ClassVar[str] = REUSE_MODE_MEANING
    v1_fields: ClassVar[Mapping[str, str]] = {f"dltsConfig.{name}": name for name in (
        "dashboard", "cluster", "team", "email", "password")}

    keeps_secrets: ClassVar[frozenset[str]] = frozenset({
        "cluster", "team", "local_storage_mount_point", "container_storage_mount_point"})

    dashboard: str = Field(description="Address of the dashboard; without http:// or https:// it means http://.")
    cluster: Name = Field(default=".default", description=(
        "Id of the cluster. .default is the dashboard's first cluster."))
    team: Name = Field(default="",
                       description="Team (virtual cluster). Default: DLWS_VC_NAME of the server's environment, "
                                   "which is set inside a job.")
    email: Name = Field(default="",
                        description="The account. Default: DLWS_USER_EMAIL of the server's environment.")
    password: SecretStr | None = Field(
        default=None, description="The account's access key, 32 hexadecimal digits, from the dashboard's page; it is "
                                  "not the log-in password. Default: DLTS_JOB_TOKEN of the server's environment.")
    ca_file: Path | None = Field(
        default=None, description="PEM file of the authority that signed the dashboard's certificate, if it is a "
                                  "private one.")
    local_storage_mount_point: Path | None = Field(
        default=None, description="Folder at which the account's home folder is mounted on this server. Default: "
                                  "/home/ and the part of email before the @, as inside a job.")
    container_storage_mount_point: ContainerPath | None = Field(
        default=None, description="Path of the home folder inside jobs. Default: the same.")

    @field_validator("dashboard")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value, "http", what="the address of the dashboard,",
                           example="https://dlts.lab.example/") + "/"

    @field_validator("team", "email", mode="before")
    @classmethod
    def _is_known(cls, value: Any, info: ValidationInfo) -> Any:
        variable = TEAM_VARIABLE if info.field_name == "team" else EMAIL_VARIABLE
        value = value or os.environ.get(variable)
        if not value:
            raise ValueError(f"is required, because {variable} is not set in the server's environment")
        return value

    @field_validator("email")
    @classmethod
    def _names_one_folder(cls, value: str) -> str:
        if not _ALIAS.fullmatch(value.partition("@")[0]):
            raise ValueError("is not an account: the part before the @ is the name of the home folder, so it may "
                             "contain only letters, digits and ._+-")
        return value

    @field_validator("password")
    @classmethod
    def _has_password(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None and not os.environ.get(PASSWORD_VARIABLE):
            raise ValueError(f"is required, because {PASSWORD_VARIABLE} is not set in the server's environment")
        return value

    def borrowed_from_the_server(self) -> str:
        # the home folder is written to and read, whoever's it is
        return f"its access key in {PASSWORD_VARIABLE}" if self.password is None else "a folder of its file system"

    @property
    def alias(self) -> str:
        """Name of the account's user in containers."""
        return self.email.partition("@")[0]

    @property
    def home_here(self) -> Path:
        return self.local_storage_mount_point or Path("/home") / self.alias

    @property
    def home_there(self) -> str:
        return self.container_storage_mount_point or f"/home/{self.alias}"

    def access_key(self) -> str:
        """The password: a secret."""
        return self.password.get_secret_value() if self.password else os.environ.get(PASSWORD_VARIABLE, "")


class DltsTrialOptions(PlaceOptions):
    """What one experiment asks of the cluster for each of its jobs."""

    v1_fields: ClassVar[Mapping[str, str]] = {"trial.image": "dockerImage"}

    docker_image: str = Field(default="msranni/nni:latest", min_length=1,
                              description="Image of each job. It needs Python 3.8 or newer; NNI is not needed.")
    gpu_type: str | None = Field(
        default=None, description="GPU type of each job. Default: the team's first GPU type; jobs without GPUs have "
                                  "none.")
    channel: Literal["auto", "http", "storage"] = Field(
        default="auto", description="How trials get their code and report: by calling this server (http), or through "
                                    "the home folder. auto: http if the server has an address for other machines or is "
                                    "a job of the cluster, else the home folder.")

    def lacks_share(self, path: str, settings: ClusterSettings) -> str:
        assert isinstance(settings, DltsClusterSettings)
        there = [settings.home_there, *(folder for folder in (f"/home/{settings.alias}", *MOUNTED_THERE)
                                        if folder != settings.home_there)]
        if is_below(path, there):
            return ""
        return (f"jobs on DLTS find no share at {path}, because they have only the cluster's own folders. Set "
                f"remoteMountPoint to a folder below {' or '.join((there[0], '/data'))}, which all jobs have")
