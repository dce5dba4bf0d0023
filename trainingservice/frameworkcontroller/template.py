"""A Framework of the user's own as template for trials (NNI's configPath)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainingservice.frameworkcontroller.task_roles import TaskRoleSettings, with_fitting_names
from trainingservice.limited_yaml import YamlRefused, read_yaml_file
from trainingservice.refused_values import refusals
from trialkeeper.whole_number import whole_number


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
    roles = ((document or {}).get("spec") or {}).get("taskRoles") if isinstance(document, dict) else None
    if not isinstance(roles, list) or not roles:
        raise ValueError(f"configPath: {path} is not a Framework, because it has no spec.taskRoles")
    for role in roles:
        containers = _containers(role)
        if len(containers) != 1:
            raise ValueError(f"configPath: role {role.get('name')} of {path} must have exactly one container in "
                             f"task.pod.spec.containers, not {len(containers)}; init containers do not count")
    result: dict[str, Any] = document
    return result


def _containers(role: Any) -> list[Any]:
    pod = (((role or {}).get("task") or {}).get("pod") or {}).get("spec") or {}
    containers = pod.get("containers")
    return containers if isinstance(containers, list) else []


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
        command = " ".join(str(word) for word in container.get("command") or [])
        try:
            roles.append(TaskRoleSettings.model_validate({
                "name": role.get("name"), "taskNumber": role.get("taskNumber", 1), "command": command or None,
                "dockerImage": container.get("image"), "gpuNumber": _gpus_of(role["task"], container),
                **({"frameworkAttemptCompletionPolicy": policy} if policy else {})}))
        except ValidationError as error:
            field, said = refusals(error)[0]
            raise ValueError(f"configPath: role {role.get('name')}: {field}: {said}") from error
    try:
        return with_fitting_names(tuple(roles))
    except ValueError as error:
        raise ValueError(f"configPath: {error}") from error
