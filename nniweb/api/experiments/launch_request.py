"""From a request to a checked or launched experiment.

Three forms: ``{"config": "<text>" or {...}, "base_directory": ...}``; the same fields as a config
file, in snake_case; a multipart form with the config's text in ``config`` and, for one, the code
folder's archive in ``code``. ``launch_code`` reads where the code is. All go through the parser of
config files, so all are checked the same way.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from django.core.files.uploadedfile import UploadedFile
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from nniweb.api.experiments.launch_code import CODE_FIELDS, Brought, CodeFields, brought_code
from nniweb.experiments.access.visibility import (
    VisibleTo,
    default_visibility,
    visible_clusters,
    visible_to_group,
)
from nniweb.experiments.clusters.metadata import defaults_among
from nniweb.experiments.config import ConfigError, ConfigInvalid, ParsedConfig, parse_experiment_config
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import why_not_here
from nniweb.experiments.launch.launch_shell import with_shell
from nniweb.experiments.launch.launched_code import BroughtCode
from nniweb.experiments.launch.launching import CheckedLaunch, check, launch, launched_before
from nniweb.experiments.launch.nameable_folders import nameable_folders
from nniweb.experiments.models import Experiment, User
from trainingservice.local.shell import variables_of_document

T = TypeVar("T")
#: A header with a text that the caller makes up for one launch, and sends again with each try of it.
LAUNCH_KEY = "Idempotency-Key"
LONGEST_KEY = 100
#: What is done with a config that is right: checking it further, or launching it.
Act = Callable[[ParsedConfig, User, BroughtCode | None, VisibleTo], T]

#: Names under which an experiment shows a field, where a config file has another.
_SHOWN_AS = {"name": "experimentName", "max_duration": "maxExperimentDuration"}


@extend_schema_field({"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": True}]})
class ConfigField(serializers.JSONField):
    """A config file's text, or the same as an object."""


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.JSONField):
    """A JSON object."""


class CodeElsewhereSerializer(serializers.Serializer[Any]):
    """Code that is neither in a folder on the server nor in the request: one of code_of and git_url."""

    code_of = serializers.CharField(required=False, help_text=(
        "Id of an experiment that you may see. The server's copy of its code is used. Relative paths start from the "
        "top folder of the code."))
    git_url = serializers.CharField(required=False, help_text="Address of a Git repository (https or ssh, ssh for "
                                    "administrators). The worker fetches it after the launch, so the config must hold "
                                    "the search space itself; a relative trialCodeDirectory is a folder of it.")
    git_ref = serializers.CharField(required=False, help_text="Branch, tag or commit; else the default branch.")
    git_folder = serializers.CharField(required=False, help_text="Folder of the repository that is the code.")
    git_token = serializers.CharField(required=False, write_only=True, help_text=(
        "Password or token for a repository that is not public (https). It is stored encrypted until the code is "
        "fetched, and never shown."))


class LaunchRequestSerializer(CodeElsewhereSerializer):
    """Either ``config``, or the fields of a config file in snake_case (all of them; the usual ones are listed)."""

    config = ConfigField(required=False, help_text="A config file (YAML or JSON, in NNI's v1 or v2 form).")
    base_directory = serializers.CharField(
        required=False, help_text="Folder on the server that relative paths start from; for administrators.")
    experiment_name = serializers.CharField(required=False)
    search_space = ObjectField(required=False)
    trial_command = serializers.CharField(required=False)
    trial_code_directory = serializers.CharField(required=False, help_text="On the server; for administrators.")
    trial_concurrency = serializers.IntegerField(required=False)
    trial_gpu_number = serializers.IntegerField(required=False)
    max_trial_number = serializers.IntegerField(required=False)
    max_experiment_duration = serializers.CharField(required=False, help_text="Such as \"90m\".")
    max_trial_duration = serializers.CharField(required=False, help_text="Such as \"90m\".")
    tuner = ObjectField(required=False)
    assessor = ObjectField(required=False)
    training_service = ObjectField(required=False)
    cluster = serializers.CharField(required=False, help_text=(
        "Name of a cluster of this server, instead of training_service. Together with config it replaces the platform "
        "or cluster in the config."))
    group = serializers.CharField(required=False, allow_null=True, help_text=(
        "Name of a group of yours whose members see the experiment and may steer it; null: only you and administrators "
        "see it. Default: your group if you are in exactly one, else null."))


class UploadSerializer(CodeElsewhereSerializer):
    """A config file's text with the code folder as tar.gz or zip; relative paths start from its top."""

    config = serializers.CharField()
    code = serializers.FileField(required=False)
    base_directory = serializers.CharField(
        required=False, help_text="Instead of code: a folder on the server; for people with the permission.")
    cluster = serializers.CharField(required=False, help_text="Replaces the value in the config.")
    group = serializers.CharField(required=False, allow_blank=True, help_text=(
        "Name of a group of yours whose members see the experiment and may steer it; empty: only you and "
        "administrators see it. Default: your group if you are in exactly one, else nobody."))
    shell = serializers.CharField(required=False, help_text=(
        "For a program on the server's machine: a JSON object with PATH, VIRTUAL_ENV and CONDA_PREFIX of its shell, "
        "and the machine. Trials on that machine use the Python of that shell. It has no effect elsewhere."))


def launch_from(request: Request, owner: User) -> tuple[Experiment, bool]:
    """Launch what the request describes, and whether it was launched now: with ``Idempotency-Key`` what an earlier
    request with this key launched is found, whatever else stands in this one. Raises ConfigInvalid, and Refused where a
    leash sends the key of a launch that is not its own; then nothing was created.
    """
    key = _launch_key(request)
    before = launched_before(owner, key) if key else None
    if before is not None:
        return before, False
    try:
        return _from_request(request, owner, functools.partial(launch, key=key)), True
    except ConfigInvalid:  # such as by a quota that the first try has used up, a moment before this one
        before = launched_before(owner, key) if key else None
        if before is None:
            raise
        return before, False


def _launch_key(request: Request) -> str:
    """The key that a request brings, "" where it has none. Raises ConfigInvalid."""
    key: str = request.headers.get(LAUNCH_KEY, "")
    if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise ConfigInvalid([ConfigError(LAUNCH_KEY, f"must be at most {LONGEST_KEY} printable ASCII characters.")])
    return key


def check_from(request: Request, owner: User) -> tuple[ParsedConfig, CheckedLaunch]:
    """The same without launching. Raises ConfigInvalid."""
    return _from_request(request, owner, checked_form)


def checked_form(parsed: ParsedConfig, owner: User, code: BroughtCode | None, visible_to: VisibleTo
                 ) -> tuple[ParsedConfig, CheckedLaunch]:
    return parsed, check(parsed, owner, code, visible_to)


def _from_request(request: Request, owner: User, act: Act[T]) -> T:
    data = request.data
    if not data and "chunked" in request.META.get("HTTP_TRANSFER_ENCODING", ""):
        raise ConfigInvalid([ConfigError("", "The body was sent in chunks of unknown length and was not read. Send a "
                                             "file from the disk, so that the request has a Content-Length.")])
    if not isinstance(data, dict):
        raise ConfigInvalid([ConfigError("", "The body must be an object with a field config, or with the fields of a "
                                             "config.")])
    if request.content_type.startswith("multipart/"):
        return from_form(dict(data.items()), owner, act)
    return _from_json(data, owner, act)


def _from_json(data: dict[str, Any], owner: User, act: Act[T]) -> T:
    fields = dict(data)
    code = CodeFields.taken_from(fields)
    base = _base_directory(fields.pop("base_directory", None), owner, code)
    visible_to = _visible_to(fields, owner)
    if "config" not in fields:
        shown = {_SHOWN_AS.get(key, key): value for key, value in fields.items()}
        try:
            return _act(shown, base, owner, None, code, visible_to, act)
        except ConfigInvalid as invalid:
            back = {name: key for key, name in _SHOWN_AS.items() if key in fields}
            raise ConfigInvalid([replace(error, field=back.get(error.field, error.field))
                                 for error in invalid.errors]) from None
    config, cluster = fields.pop("config"), _cluster(fields.pop("cluster", None))
    if fields:
        raise ConfigInvalid([ConfigError(key, "cannot be given together with config. Write it into the config.")
                             for key in fields])
    if not isinstance(config, str | dict):
        raise ConfigInvalid([ConfigError("config", "must be the text of a config file, or its content as an object.")])
    return _act(config, base, owner, cluster, code, visible_to, act)


def _act(config: str | dict[str, Any], base: Path | None, owner: User, cluster: str | None, code: CodeFields,
         visible_to: VisibleTo, act: Act[T], shell: Mapping[str, str] | None = None) -> T:
    with brought_code(code, owner) as brought:
        try:
            parsed = _parse(config, base, brought, owner, cluster)
        except ConfigInvalid as invalid:
            if not isinstance(config, str):
                raise
            # a text that cannot be read has no fields yet: the field is the text itself
            raise ConfigInvalid([replace(error, field=error.field or "config") for error in invalid.errors]) from None
        parsed, launch_code = brought.code_for(parsed)
        with _refusals_at_their_places(parsed):
            return act(with_shell(parsed, owner, shell or {}), owner, launch_code, visible_to)


@contextmanager
def _refusals_at_their_places(parsed: ParsedConfig) -> Iterator[None]:
    """Gives what a launch refuses the same form as errors of the config: to the caller it is one check."""
    try:
        yield
    except Refused as refused:
        raise ConfigInvalid([parsed.error_at(field, message) for field, message in refused.errors]) from None


def _cluster(written: Any) -> str | None:
    if written in (None, ""):
        return None
    if not isinstance(written, str):
        raise ConfigInvalid([ConfigError("cluster", "must be the name of a cluster.")])
    return written


def _visible_to(fields: dict[str, Any], owner: User) -> VisibleTo:
    """Takes ``group`` out of the fields. Raises ConfigInvalid."""
    if "group" not in fields:
        return default_visibility(owner)
    name = fields.pop("group")
    if name is not None and not isinstance(name, str):
        raise ConfigInvalid([ConfigError("group", "must be the name of a group of yours, or null.")])
    try:
        return visible_to_group(owner, name or "")
    except Refused as refused:
        raise ConfigInvalid([ConfigError("group", message) for _, message in refused.errors]) from None


def _shell(written: Any) -> dict[str, str]:
    if written in (None, ""):
        return {}
    try:
        return variables_of_document(str(written))
    except ValueError as error:
        raise ConfigInvalid([ConfigError("shell", f"cannot be read: {error}.")]) from None


def _base_directory(written: Any, owner: User, code: CodeFields) -> Path | None:
    if written in (None, ""):
        return None
    problem = ""
    if code.are_given:
        problem = "cannot be given together with code from another place. Leave one of them out."
    elif not isinstance(written, str) or not Path(written).is_absolute():
        problem = "must be the absolute path of a folder on the server."
    elif not owner.may_name_folders:
        problem = "You do not have the permission to name folders on the server. Upload the code with the request " \
                  "instead (a multipart form with the file code), or ask an administrator."
    else:
        # resolved once: what is checked is what is read, also where somebody changes a link in it meanwhile
        folder = Path(written).resolve()
        if outside := nameable_folders(owner).problem(folder, written):
            problem = f"{outside}."
        elif not folder.is_dir():
            problem = f"There is no folder {written} on the server."
        else:
            return folder
    raise ConfigInvalid([ConfigError("base_directory", problem)])


def from_form(data: dict[str, Any], owner: User, act: Act[T]) -> T:
    """Check or launch what a form describes: ``config`` (text or file), ``cluster``, ``group``, and where the code is.
    Raises ConfigInvalid.
    """
    fields = dict(data)
    config = fields.pop("config", None)
    if isinstance(config, UploadedFile):
        config = config.read().decode("utf-8", "replace")
    if not isinstance(config, str) or "\x00" in config:
        raise ConfigInvalid([ConfigError("config", "is required. Give the text of a config file.")])
    code = CodeFields.taken_from(fields, archive=fields.pop("code", None))
    written_base, cluster = fields.pop("base_directory", None), _cluster(fields.pop("cluster", None))
    shell, visible_to = _shell(fields.pop("shell", None)), _visible_to(fields, owner)
    if fields:
        known = f"config, cluster, group, base_directory, code, shell, {', '.join(CODE_FIELDS)}"
        raise ConfigInvalid([ConfigError(key, "is not a known field. Known fields: "
                                              f"{known}.") for key in sorted(fields)])
    return _act(config, _base_directory(written_base, owner, code), owner, cluster, code, visible_to, act, shell)


def _parse(source: str | dict[str, Any], base: Path | None, brought: Brought, owner: User, cluster: str | None
           ) -> ParsedConfig:
    return parse_experiment_config(source, brought.base or base, must_exist=not brought.comes_later,
                                   roots=nameable_folders(owner, brought.base),
                                   cluster_platform=_platform_of(owner), cluster=cluster,
                                   why_not_here=functools.partial(why_not_here, owner),
                                   cluster_defaults=defaults_among(visible_clusters(owner).filter(enabled=True)))


def _platform_of(owner: User) -> Callable[[str], str | None]:
    usable = visible_clusters(owner).filter(enabled=True)
    return lambda name: usable.filter(name=name).values_list("platform", flat=True).first()
