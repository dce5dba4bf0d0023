"""A Framework of the user's own as template for trials (NNI's configPath)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings, with_fitting_names
from trainingservice.limited_yaml import YamlRefused, read_yaml_file
from trainingservice.refused_values import refusals
from trialkeeper.whole_number import whole_number

_KINDS: dict[type, str] = {dict: "mapping", list: "list", str: "text"}
#: Words of a command may be numbers, which YAML makes of texts without quotes.
_TAKEN: dict[type, Any] = {str: str | int | float}


def read_template(path: Path) -> dict[str, Any]:
    """The Framework in the file. Raises ValueError with a sentence."""
    try:
        return _read(path, path.stat().st_mtime_ns)  # read again when it was changed
    except OSError as error:
        raise ValueError(f"configPath: {path} cannot be read ({error.strerror})") from error


@lru_cache(maxsize=16)
def _read(path: Path, _changed_at: int) -> dict[str, Any]:
    try:
        document = read_yaml_file(path)
    except YamlRefused as error:
        raise ValueError(f"configPath: {path} cannot be read as YAML: {error}") from error
    spec = document.get("spec") if isinstance(document, dict) else None
    roles = spec.get("taskRoles") if isinstance(spec, dict) else None
    if not isinstance(roles, list) or not roles:
        raise ValueError(f"configPath: {path} is not a Framework, because it has no spec.taskRoles")
    for number, role in enumerate(roles):
        containers = _containers(role)
        if len(containers) != 1:
            name = role.get("name") if isinstance(role, dict) else number
            raise ValueError(f"configPath: role {name} of {path} must have exactly one container in "
                             f"task.pod.spec.containers, not {len(containers)}; init containers do not count")
    if wrong := next(_wrong_kinds(document), ""):
        raise ValueError(f"configPath: {path} is not a Framework: {wrong}")
    result: dict[str, Any] = document
    return result


def _containers(role: Any) -> list[Any]:
    found = role
    for name in ("task", "pod", "spec", "containers"):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, list) else []


def _wrong_kinds(document: dict[str, Any]) -> Iterator[str]:
    """What is no mapping, list or text where the keeper is added, as sentences."""
    def of(owner: dict[str, Any], place: str, name: str, kind: type, entries: type | None = None) -> Iterator[str]:
        value: Any = owner.get(name)
        taken = _TAKEN.get(entries, entries) if entries else object
        if value is not None and not isinstance(value, kind):
            yield f"{place}{name} must be a {_KINDS[kind]}"
        elif entries and not all(isinstance(entry, taken) for entry in owner.get(name) or ()):
            yield f"each entry of {place}{name} must be a {_KINDS[entries]}"

    yield from of(document, "", "metadata", dict)
    for part in ("labels", "annotations"):
        yield from of(document.get("metadata") or {}, "metadata.", part, dict)
    for number, role in enumerate(document["spec"]["taskRoles"]):
        place = f"spec.taskRoles[{number}].task.pod."
        pod, [container] = role["task"]["pod"], _containers(role)
        yield from of(pod, place, "metadata", dict)
        for part in ("labels", "annotations"):
            yield from of(pod.get("metadata") or {}, f"{place}metadata.", part, dict)
        for part in ("volumes", "initContainers", "imagePullSecrets", "tolerations", "containers"):
            yield from of(pod["spec"], f"{place}spec.", part, list, dict)
        yield from of(pod["spec"], f"{place}spec.", "nodeSelector", dict)
        for part, entries in (("command", str), ("args", str), ("env", dict), ("volumeMounts", dict)):
            yield from of(container, f"{place}spec.containers[0].", part, list, entries)
        yield from of(container, f"{place}spec.containers[0].", "resources", dict)
        for part in ("requests", "limits"):
            yield from of(container.get("resources") or {}, f"{place}spec.containers[0].resources.", part, dict)


def _command_of(container: dict[str, Any]) -> str | None:
    """What the container runs, as shell text; None where it leaves that to its image.

    A word alone is such a text, as in NNI. Of several, one with blanks is one argument, as that of ``sh -c``.
    """
    command, args = container.get("command"), container.get("args") or []
    words = [str(word) for word in (*command, *args)] if command else []
    quoted = [shlex.quote(word) if len(words) > 1 and len(word.split()) != 1 else word for word in words]
    return " ".join(quoted) or None


def says_gpus(container: dict[str, Any]) -> bool:
    """Whether a container of the template asks for GPUs, or for none, by itself."""
    return any("gpu" in name for name in _limits(container))


def _limits(container: dict[str, Any]) -> dict[str, Any]:
    resources = container.get("resources")
    amounts = [resources.get(kind) for kind in ("requests", "limits")] if isinstance(resources, dict) else []
    return {str(name): amount for kind in amounts if isinstance(kind, dict) for name, amount in kind.items()}


def _gpus_of(task: dict[str, Any], container: dict[str, Any]) -> Any:
    """GPUs of a role by its pod, else by NNI's gpuNum; None where it does not say."""
    said = [number for name, count in _limits(container).items()
            if "gpu" in name and (number := whole_number(str(count))) is not None]
    return sum(said) if says_gpus(container) else task.get("gpuNum")


def roles_of_template(template: dict[str, Any]) -> tuple[TaskRoleSettings, ...]:
    """What the template says of its roles; their resources stay in its pods. Raises ValueError."""
    roles = []
    for role in template["spec"]["taskRoles"]:
        container = _containers(role)[0]
        policy = role.get("frameworkAttemptCompletionPolicy")
        try:
            roles.append(TaskRoleSettings.model_validate({
                "name": role.get("name"), "taskNumber": role.get("taskNumber", 1), "command": _command_of(container),
                "dockerImage": container.get("image"), "gpuNumber": _gpus_of(role["task"], container),
                **({"frameworkAttemptCompletionPolicy": policy} if policy else {})}))
        except ValidationError as error:
            field, said = refusals(error)[0]
            raise ValueError(f"configPath: role {role.get('name')}: {field}: {said}") from error
    try:
        return with_fitting_names(tuple(roles))
    except ValueError as error:
        raise ValueError(f"configPath: {error}") from error
