"""Which platforms there are: a table of the built-in ones, entry points of other packages, registrations.

Nothing is imported before it is asked for, so a platform whose library is missing costs the others nothing.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import logging
import os
import sys
import threading
from importlib.metadata import entry_points

from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions
from trainingservice.errors import PermanentError
from trainingservice.words.shown_value import shown

logger = logging.getLogger(__name__)

#: Other packages register their platforms under this group: ``name = "package.module:Class"``.
ENTRY_POINT_GROUP = "trainingservice.platforms"
#: More platforms without a package: ``name=module:Class,name=module:Class``.
EXTRA_PLATFORMS_VARIABLE = "NNIWEB_EXTRA_PLATFORMS"

#: name -> "module:Class"
BUILT_IN: dict[str, str] = {
    "adl": "trainingservice.adl.service:AdlTrainingService",
    "azureml": "trainingservice.azureml.service:AzureMlTrainingService",
    "frameworkcontroller": "trainingservice.frameworkcontroller.service:FrameworkControllerTrainingService",
    "kubeflow": "trainingservice.kubeflow.service:KubeflowTrainingService",
    "kubernetes": "trainingservice.kubernetes.service:KubernetesTrainingService",
    "local": "trainingservice.local.service:LocalTrainingService",
    "command": "trainingservice.command.service:CommandTrainingService",
    "dlts": "trainingservice.dlts.service:DltsTrainingService",
    "openpai": "trainingservice.openpai.service:OpenPaiTrainingService",
    "ray": "trainingservice.ray.service:RayTrainingService",
    "remote": "trainingservice.remote.service:RemoteTrainingService",
    "slurm": "trainingservice.slurm.service:SlurmTrainingService",
}

#: What NNI's configuration files call a platform -> its name here.
ALIASES: dict[str, str] = {"pai": "openpai", "paiYarn": "openpai", "aml": "azureml"}

#: NNI's platforms that are not here -> what to do instead.
MISSING: dict[str, str] = {
    "dlc": "Alibaba's PAI-DLC is not here. Choose kubernetes for a cluster of yours at Alibaba, or write a platform of "
           "your own as docs/write-a-platform.md shows.",
    "hybrid": "NNI's hybrid of several platforms is not here in the v1 form. Write the v2 form, with a list of "
              "platforms under trainingService, or name several clusters of this server in clusters.",
}

#: Top-level module of a library that is not always installed -> how to install it.
INSTALL_HINTS: dict[str, str] = {
    "azure": "pip install 'nniweb[azure]' (in a checkout of nniweb: -r requirements/azure.txt)",
    "kubernetes": "pip install kubernetes",
    "paramiko": "pip install paramiko",
}

_registered: dict[str, str] = {}
#: By name and target.
_loaded: dict[tuple[str, str], type[TrainingService]] = {}
_warned: set[str] = set()
_lock = threading.Lock()


class UnknownPlatform(PermanentError):
    """No platform of that name is installed."""


class BrokenPlatform(PermanentError):
    """The platform is known but cannot be used: a library is missing or its class is wrong."""


def register(name: str, target: str) -> None:
    """Make the class at ``target`` ("module:Class") known as ``name``; takes precedence over all others."""
    with _lock:
        _registered[name] = target
        _loaded.pop((name, target), None)


def unregister(name: str) -> None:
    """Undo ``register``. Harmless for unknown names."""
    with _lock:
        _loaded.pop((name, _registered.pop(name, "")), None)


def platform_names() -> list[str]:
    """The names of all platforms that can be used here, sorted. Broken ones are logged and left out."""
    broken = broken_platforms()
    return [name for name in sorted(_targets()) if name not in broken]


def known_platforms() -> dict[str, str]:
    """All that are known here, without loading any: name -> "module:Class"."""
    return _targets()


def broken_platforms() -> dict[str, str]:
    """The platforms that are registered and cannot be used: name -> why, and what to do. They are logged, too."""
    reasons: dict[str, str] = {}
    for name in sorted(_targets()):
        try:
            load_platform(name)
        except BrokenPlatform as error:
            reasons[name] = str(error)
            _warn_once(str(error))
    return reasons


def load_platform(name: str) -> type[TrainingService]:
    """The class of a platform. Raises UnknownPlatform or BrokenPlatform with a sentence that says what to do."""
    targets = _targets()
    known = name if name in targets else {key.lower(): real for key, real in ALIASES.items()}.get(name.lower(), name)
    if known not in targets:
        raise UnknownPlatform(_unknown(name, sorted(targets)))
    key = known, targets[known]
    with _lock:
        found = _loaded.get(key)
    if found is None:
        found = _load(*key)
        with _lock:
            _loaded[key] = found
    return found


def is_multi_phase(platform: type[TrainingService]) -> bool | None:
    """Whether running trials can be given further parameters, asked without a service, for which there would have to be
    a cluster. None where that depends on the cluster.
    """
    try:
        return bool(object.__new__(platform).is_multi_phase_job_supported)
    except Exception:
        return None


def _targets() -> dict[str, str]:
    """name -> "module:Class". What is nearer to the person in charge wins: registered, setting, built in, packages."""
    targets = {**_of_packages(tuple(_changed_at(folder) for folder in sys.path)), **BUILT_IN}
    for piece in os.environ.get(EXTRA_PLATFORMS_VARIABLE, "").split(","):
        name, equals, target = piece.partition("=")
        if equals and name.strip() and target.strip():
            targets[name.strip()] = target.strip()
        elif piece.strip():
            _warn_once(f"{EXTRA_PLATFORMS_VARIABLE}: {shown(piece.strip())} is not of the form name=module:Class "
                       "and is ignored")
    with _lock:
        targets.update(_registered)
    return targets


@functools.lru_cache(maxsize=1)
def _of_packages(state: tuple[int, ...]) -> dict[str, str]:  # noqa: ARG001  # what is kept is kept for it
    """Those of installed packages. Kept for as long as nothing is installed: all packages' files are read for it.

    ``state``: of the folders where packages are.
    """
    return {point.name: point.value for point in entry_points(group=ENTRY_POINT_GROUP)}


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _warn_once(text: str) -> None:
    with _lock:
        is_new = text not in _warned
        _warned.add(text)
    if is_new:
        logger.warning("%s", text)


def _unknown(name: str, known: list[str]) -> str:
    if name.lower() in MISSING:
        return MISSING[name.lower()]
    nearest = difflib.get_close_matches(name, [*known, *ALIASES], n=1)
    suggestion = f" Did you mean {shown(nearest[0])}?" if nearest else ""
    return (f"There is no platform named {shown(name)}.{suggestion} Known platforms: {', '.join(known)}. A platform "
            "of a "
            "package must be installed in the Python environment of the server, or be named in "
            f"{EXTRA_PLATFORMS_VARIABLE} where the server is started.")


def _load(name: str, target: str) -> type[TrainingService]:
    module_name, _, class_name = target.partition(":")
    try:
        platform = getattr(importlib.import_module(module_name), class_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if missing == module_name or module_name.startswith(missing + "."):
            raise BrokenPlatform(f"Platform {shown(name)} is registered as {shown(target, 200)}, but there is no "
                                 f"module {shown(missing)}; "
                                 "install the package it comes from or correct the registration.") from error
        hint = INSTALL_HINTS.get(missing.partition(".")[0], f"pip install {missing.partition('.')[0]}")
        raise BrokenPlatform(f"Platform {shown(name)} needs the Python library {shown(missing)}, which is not "
                             "installed here. "
                             f"Install it with: {hint}") from error
    except AttributeError as error:
        raise BrokenPlatform(f"Platform {shown(name)} is registered as {shown(target, 200)}, but module "
                             f"{shown(module_name)} has no "
                             f"{shown(class_name)}; correct the registration.") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module that calls sys.exit() must not end the server
        raise BrokenPlatform(f"Platform {shown(name)} ({target}) cannot be imported: {type(error).__name__}: {error}. "
                             "Ask its author, or remove the package.") from error
    if BUILT_IN.get(name) != target:  # a fifth of the time; that ours pass is a test's to say
        _check(name, target, platform)
    found: type[TrainingService] = platform
    return found


def _check(name: str, target: str, platform: object) -> None:
    """Refuse a class that cannot work, naming what it lacks."""
    if not isinstance(platform, type) or not issubclass(platform, TrainingService):
        raise BrokenPlatform(f"Platform {shown(name)}: {target} is not a subclass of "
                             "trainingservice.base.TrainingService.")
    forgotten = sorted(getattr(platform, "__abstractmethods__", ()))
    forgotten += [attribute for attribute in ("platform",) if not hasattr(platform, attribute)]
    if inspect.isabstract(platform) or forgotten:
        raise BrokenPlatform(f"Platform {shown(name)}: {target} does not define {', '.join(forgotten)}; "
                             "its author must add what is missing.")
    wrong = [f"{attribute} is {shown(getattr(platform, attribute))}, not {what}" for attribute, (kind, what)
             in _ATTRIBUTES.items() if not _is_of(getattr(platform, attribute), kind)]
    if wrong:
        raise BrokenPlatform(f"Platform {shown(name)}: of {target}, {'; '.join(wrong)}; its author must correct that.")
    try:
        for model in (platform.settings_model, platform.options_model):
            model.model_json_schema()
    except Exception as error:
        raise BrokenPlatform(f"Platform {shown(name)}: {target} has settings that cannot be described "
                             f"({type(error).__name__}: {' '.join(str(error).split())[:300]}); its author must choose "
                             "fields of other types.") from error


def _is_of(value: object, kind: type) -> bool:
    return isinstance(value, type) and issubclass(value, kind) if issubclass(kind, SettingsModel) \
        else isinstance(value, kind)


#: Attributes of a platform's class that the host reads before there is an object: of which type they must be, in words.
_ATTRIBUTES: dict[str, tuple[type, str]] = {
    "platform": (str, "a text"), "settings_model": (ClusterSettings, "a subclass of ClusterSettings"),
    "options_model": (TrialOptions, "a subclass of TrialOptions"), "shares_code_folder": (bool, "True or False"),
    "ships_code": (bool, "True or False"), "takes_variants": (bool, "True or False"),
    "keepers_report": (bool, "True or False"),
    "needs_public_url": (bool, "True or False"), "pinned_to_host": (bool, "True or False"),
    "suspends_jobs": (bool, "True or False"), "continues_jobs": (bool, "True or False"),
    "metadata_keys": (dict, "a dictionary"), "secret_metadata_keys": (frozenset, "a frozenset"),
    "metadata_changeable_while_running": (frozenset, "a frozenset")}
