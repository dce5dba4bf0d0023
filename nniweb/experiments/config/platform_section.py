"""The ``trainingService`` section: whatever the platform's models say, split into settings, options and secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from nniweb.experiments.config.document import INHERITABLE
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.fields.walk import FieldWalk, model_fields
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.model_validation import validate
from nniweb.experiments.config.yaml_positions import Path, path_text
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions, without_secrets
from trainingservice.errors import PermanentError
from trainingservice.places.options import PlaceOptions
from trainingservice.platforms import load_platform
from trainingservice.words.shown_value import shown
from trainingservice.words.spellings import fold

SECTION_KEY = "trainingService"
SECTION: Path = (SECTION_KEY,)


class PlatformSection(BaseModel):
    """A platform, how to use it, and what this experiment's trials ask of it.

    ``secrets`` holds what ``settings`` and ``options`` mark as secret: the path within the section
    (``password``, ``machineList[0].password``) -> the secret. ``document`` gives the rest.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    #: The registry's own name (``openpai`` where the file says ``pai``).
    platform: str
    settings: SerializeAsAny[ClusterSettings]
    options: SerializeAsAny[TrialOptions]
    secrets: dict[str, str] = Field(default={}, repr=False)

    def document(self) -> dict[str, Any]:
        """The section as a file would have it, canonical, without secrets."""
        return {"platform": self.platform, **without_secrets(self.settings), **without_secrets(self.options)}


def parse_stored_section(document: dict[str, Any], secrets: dict[str, str]) -> PlatformSection:
    """A section that was stored as ``document()`` and ``secrets`` (``PlatformSection``'s two halves), whole again.

    Nothing is looked for on this machine's disk. Raises ConfigInvalid where the platform is gone or
    has changed its fields.
    """
    whole = _copy(document)
    for path, secret in secrets.items():
        _put(whole, path, secret)
    findings = Findings({})
    section = read_platform_section(whole, FieldWalk(findings, LocalPaths(None, must_exist=False)), {})
    findings.raise_if_any()
    if section is None:
        raise ConfigInvalid([])  # not reached: without a section there is an error
    return section


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _put(document: Any, path: str, secret: str) -> None:
    *parents, last = path.replace("[", ".[").split(".")
    for part in parents:
        document = document[int(part[1:-1])] if part.startswith("[") else document.setdefault(part, {})
    document[last] = secret


def load(name: object, path: Path, findings: Findings) -> type[TrainingService] | None:
    """The platform's class, or None after saying why there is none."""
    if not isinstance(name, str) or not name:
        findings.add(path, "is required; give the name of a platform, such as local" if name in (None, "")
                     else f"must be the name of a platform, not {shown(name)}")
        return None
    try:
        return load_platform(name)
    except PermanentError as error:
        if name != name.lower():
            return load(name.lower(), path, findings)
        findings.add(path, str(error))
        return None


def platform_of(section: dict[str, Any]) -> type[TrainingService] | None:
    """The class of the platform that a section names; None, without a word, where there is none."""
    return load(next((value for key, value in section.items() if fold(key) == "platform"), None), SECTION, Findings({}))


def inheritable_of(section: dict[str, Any], platform: type[TrainingService] | None) -> list[str]:
    """Keys of the section, as written, that belong to the top level of the file."""
    models = (platform.settings_model, platform.options_model) if platform is not None else ()
    own = {fold(key) for key in model_fields(models)}
    general = {fold(key) for key in INHERITABLE} - own
    return [key for key in section if fold(key) in general]


def read_platform_section(section: Any, walk: FieldWalk, context: dict[str, Any],
                          may_go_on: Callable[[type[TrainingService], ClusterSettings], bool] = lambda *_: True,
                          at: Path = SECTION) -> PlatformSection | None:
    """Validate a section (inheritable fields already taken out); None after adding what is wrong.

    ``may_go_on`` is asked before the options are looked at, which may name files to be read. ``at``: where it stands.
    """
    findings = walk.findings
    raw = findings.raw(at)
    platform_key = next((key for key in section if fold(key) == "platform"), None)
    if platform_key is not None:
        findings.spelt((*at, "platform"), (*raw, platform_key))
    platform = load(section.get(platform_key), (*at, "platform"), findings)
    if platform is None:
        return None
    rest = {key: value for key, value in section.items() if key != platform_key}
    _say_what_reuse_mode_means(rest, platform, findings, raw, at)
    document = walk.mapping(rest, (platform.settings_model, platform.options_model), at)
    settings = _part(platform.settings_model, document, walk, context, at)
    if settings is not None and not may_go_on(platform, settings):
        return None
    options = _part(platform.options_model, document, walk,
                    {**context, "reads_files": context.get("reads_files", True) and settings is not None}, at)
    if settings is None or options is None:
        return None
    if why := why_no_place(settings, options):
        findings.note(f"{path_text((*raw, 'reuseMode'))}: each trial is a job of its own here, because {why}.")
    secrets = {path_text(path[len(at):]): secret for path, secret in walk.secrets.items() if path[:len(at)] == at}
    return PlatformSection(platform=platform.platform, settings=settings, options=options, secrets=secrets)


def read_trial_options(document: dict[str, Any], platform: type[TrainingService], path: Path, walk: FieldWalk,
                       context: dict[str, Any]) -> TrialOptions | None:
    """Validate options alone, for an experiment on a cluster that already has its settings."""
    canonical = walk.mapping(document, (platform.options_model,), path)
    return validate(platform.options_model, canonical, path, walk.findings, frozenset(walk.secrets), context)


def _say_what_reuse_mode_means(section: dict[str, Any], platform: type[TrainingService], findings: Findings,
                               raw: Path, at: Path) -> None:
    """Add a note for ``reuseMode``; take it out of the section where the platform does not declare it itself."""
    declared = "reuseMode" in model_fields((platform.settings_model, platform.options_model))
    for key in [key for key in section if fold(key) == "reusemode"]:
        value = section[key] if declared else section.pop(key)
        if not isinstance(value, bool | None):
            findings.add_raw((*raw, key), f"must be true or false, not {shown(value)}")
        elif value is not None:
            findings.note(f"{path_text(findings.raw((*at, key)))}: {platform.settings_model.reuse_mode_meaning}.")


def why_no_place(settings: ClusterSettings, options: TrialOptions) -> str:
    """Why jobs do not stay for further trials although ``reuseMode`` is on, a clause; "" where they do."""
    if not isinstance(options, PlaceOptions) or not options.reuse_mode:
        return ""
    if not options.keepers_may_call() or not settings.keepers_call_home():
        return "its trials do not call this server"
    return options.why_no_place()


def _part(model: type[Any], document: dict[str, Any], walk: FieldWalk, context: dict[str, Any], at: Path) -> Any:
    keys: Iterable[str] = model_fields((model,))
    return validate(model, {key: document[key] for key in keys if key in document}, at, walk.findings,
                    frozenset(walk.secrets), context)
