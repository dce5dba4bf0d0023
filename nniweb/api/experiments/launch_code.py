"""The code of a launch that does not lie in a folder on the server: an archive, an earlier experiment's, a repository.

What is brought becomes a folder that relative paths of the config start from; it is gone after the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from nniweb.annotation.annotated_folder import pack_annotated
from nniweb.annotation.reading_process import AnnotationsInvalid
from nniweb.experiments.access.visibility import visible_experiments
from nniweb.experiments.config import ConfigError, ConfigInvalid, ParsedConfig
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.git_source import GitSource, read_git_source
from nniweb.experiments.launch.launched_code import BroughtCode, GitCode, UploadedCode, scratch_folder
from nniweb.experiments.launch.stored_options import with_parts_as_folders
from nniweb.experiments.launch.uploaded_code import UploadRefused, unpack
from nniweb.experiments.models import Experiment, User
from trainingservice.cluster_settings import TrialOptions, part_folders
from trainingservice.code.code_archive import MAX_BYTES, pack_tree
from trainingservice.errors import PermanentError
from trialkeeper.child_process import CannotStart
from trialkeeper.code_folder import extract_archive

CODE_FIELDS = ("code_of", "git_url", "git_ref", "git_folder", "git_token")
_LONGEST_TOKEN = 4096
_ELSEWHERE = "names a folder on the server, but the code comes from another place. Leave one of them out."


@dataclass(frozen=True)
class CodeFields:
    """What a request says about its code, unchecked."""

    archive: Any = None
    code_of: Any = None
    git: tuple[Any, Any, Any, Any] | None = None

    @classmethod
    def taken_from(cls, fields: dict[str, Any], archive: Any = None) -> CodeFields:
        """Takes the fields out. Raises ConfigInvalid where they exclude each other."""
        taken = {name: value for name in CODE_FIELDS if (value := fields.pop(name, None)) not in (None, "")}
        ways = [name for name, value in (("code", archive), *taken.items())
                if name in ("code", "code_of", "git_url") and value is not None]
        if len(ways) > 1:
            raise ConfigInvalid([ConfigError(ways[-1], f"cannot be given together with {ways[0]}, because the code "
                                                       "comes from one place. Leave one of them out.")])
        alone = [name for name in taken if name.startswith("git_")] if "git_url" not in taken else []
        if alone:
            raise ConfigInvalid([ConfigError(alone[0], "is only valid together with git_url, which is missing.")])
        git = tuple(taken.get(name) for name in CODE_FIELDS[1:]) if "git_url" in taken else None
        return cls(archive, taken.get("code_of"), git)  # type: ignore[arg-type]  # four of them

    @property
    def are_given(self) -> bool:
        return self.archive is not None or self.code_of is not None or self.git is not None


class Brought:
    """No code from elsewhere: what the config and its base directory say holds."""

    #: Where relative paths start; None: where the request says.
    base: Path | None = None
    #: Nothing of it can be looked at yet.
    comes_later = False

    def code_for(self, parsed: ParsedConfig) -> tuple[ParsedConfig, BroughtCode | None]:
        """The config without the folder that goes away, and the code to launch with. Raises ConfigInvalid."""
        return parsed, None


@contextmanager
def brought_code(fields: CodeFields, owner: User) -> Iterator[Brought]:
    """The code that a request brings, for as long as the request goes on. Raises ConfigInvalid."""
    if not fields.are_given:
        yield Brought()
        return
    with scratch_folder() as name:
        scratch = Path(name).resolve()
        folder = scratch / "code"
        try:
            if fields.git is not None:
                folder.mkdir()
                yield from _later(fields.git, folder)
            elif fields.code_of is not None:
                experiment = _experiment(fields.code_of, owner)
                _unpack_kept(experiment, folder)
                yield _BroughtFolder(folder, scratch, "code_of", experiment)
            else:
                folder.mkdir()
                _unpack_upload(fields.archive, folder)
                yield _BroughtFolder(folder, scratch, "code", None)
        except ConfigInvalid as invalid:  # a path in it would be the data folder's, and of a folder that goes away
            raise ConfigInvalid([replace(error, message=error.message.replace(f"{folder}/", "").replace(
                str(folder), "the code's folder")) for error in invalid.errors]) from None


class _BroughtFolder(Brought):
    def __init__(self, folder: Path, scratch: Path, field: str, experiment: Experiment | None) -> None:
        self.base = folder
        self._scratch = scratch
        self._field = field
        self._experiment = experiment

    def code_for(self, parsed: ParsedConfig) -> tuple[ParsedConfig, BroughtCode | None]:
        assert self.base is not None
        code = _folder_of(parsed, self.base)
        parts = _part_folders(parsed, self.base)
        kept = self._experiment.code if self._experiment is not None and code == self.base else None
        if kept is not None and not parsed.settings.use_annotation:  # as it is: trials get the very same bytes
            files = [path for path in self.base.rglob("*") if path.is_file()]
            return _without_folder(parsed), UploadedCode(code_archives.local_path(kept), kept.sha256, kept.file_count,
                                                         sum(path.lstat().st_size for path in files), code)
        try:
            packed = pack_annotated(code, self._scratch / "packed", parts)[0] if parsed.settings.use_annotation \
                else pack_tree(code, parts, self._scratch / "packed")
        except AnnotationsInvalid as invalid:
            raise ConfigInvalid([parsed.error_at("useAnnotation", str(problem))
                                 for problem in invalid.problems]) from None
        except PermanentError as error:
            raise _refused(self._field, error, self.base) from None
        return _without_folder(_with_options(parsed, with_parts_as_folders)), UploadedCode(
            packed.path, packed.sha256, packed.file_count, packed.content_bytes, code, parts)


class _BroughtLater(Brought):
    comes_later = True

    def __init__(self, source: GitSource, token: str, folder: Path) -> None:
        self.base = folder
        self._source = source
        self._token = token

    def code_for(self, parsed: ParsedConfig) -> tuple[ParsedConfig, BroughtCode | None]:
        assert self.base is not None
        base = self.base
        code = _folder_of(parsed, base)
        if _part_folders(parsed, base):
            below = _with_options(parsed, lambda options: options.with_code_directories(
                lambda folder: folder and Path(folder).relative_to(base).as_posix()))
            return _without_folder(below), GitCode(self._source, self._token)
        inner = code.relative_to(base).as_posix()
        return _without_folder(parsed), GitCode(self._source.inside(inner), self._token)


def _later(git: tuple[Any, Any, Any, Any], folder: Path) -> Iterator[Brought]:
    *address, token = git
    if token is not None and (not isinstance(token, str) or len(token) > _LONGEST_TOKEN or not token.isprintable()):
        raise ConfigInvalid([ConfigError("git_token", f"must be a text of at most {_LONGEST_TOKEN} characters without "
                                                      "line breaks.")])
    try:
        source = read_git_source(*address)
    except Refused as refused:
        raise ConfigInvalid([ConfigError(field, message) for field, message in refused.errors]) from None
    if token and source.is_ssh:
        raise ConfigInvalid([ConfigError("git_token", "is only for https. With ssh, the keys of the server's own user "
                                                      "are used.")])
    try:
        yield _BroughtLater(source, token or "", folder)
    except ConfigInvalid as invalid:
        raise ConfigInvalid([replace(error, message=(
            "names something in the repository, which is fetched only after the launch. Write the search space into "
            "the config itself (searchSpace).")) if str(folder) in error.message else error
            for error in invalid.errors]) from None


def _experiment(public_id: Any, owner: User) -> Experiment:
    found = visible_experiments(owner).select_related("code").filter(public_id=public_id).first() \
        if isinstance(public_id, str) and len(public_id) < 100 else None
    if found is None:
        raise ConfigInvalid([ConfigError("code_of", "There is no such experiment, or you may not see it.")])
    if found.code is None:
        why = "its trials run in a folder on the server, which you can give as base_directory." \
            if found.code_folder else "the code was never fetched, or the experiment has none."
        raise ConfigInvalid([ConfigError("code_of", f"The server has no copy of the code of {found.name}: {why}")])
    return found


def _unpack_kept(experiment: Experiment, folder: Path) -> None:
    assert experiment.code is not None
    try:
        extract_archive(str(code_archives.local_path(experiment.code)), str(folder))
    except (CannotStart, OSError) as error:
        raise ConfigInvalid([ConfigError("code_of", f"The code of {experiment.name} cannot be read: {error}. Provide "
                                                    "the code again.")]) from None


def _unpack_upload(archive: Any, folder: Path) -> None:
    if not isinstance(archive, UploadedFile) or (archive.size or 0) > MAX_BYTES:
        raise ConfigInvalid([ConfigError("code", f"must be a file (tar.gz or zip) of at most {MAX_BYTES // 2**20} "
                                         "MB.")])
    try:
        unpack(archive.file, folder)  # type: ignore[arg-type]
    except UploadRefused as error:
        raise _refused("code", error, folder) from None


def _refused(field: str, error: Exception, folder: Path) -> ConfigInvalid:
    sentence = str(error).replace(f"{folder}/", "").replace(str(folder), "of the archive")
    return ConfigInvalid([ConfigError(field, sentence)])


def _without_folder(parsed: ParsedConfig) -> ParsedConfig:
    """The folder goes away with the request: trials get the archive."""
    return replace(parsed, settings=parsed.settings.model_copy(update={"trial_code_directory": None}))


def _options_of(parsed: ParsedConfig) -> TrialOptions | None:
    section = parsed.settings.training_service
    return section.options if section is not None else parsed.settings.trial_options


def _with_options(parsed: ParsedConfig, change: Callable[[TrialOptions], TrialOptions]) -> ParsedConfig:
    settings, section, options = parsed.settings, parsed.settings.training_service, _options_of(parsed)
    if options is None:
        return parsed
    update = {"trial_options": change(options)} if section is None else \
        {"training_service": section.model_copy(update={"options": change(options)})}
    return replace(parsed, settings=settings.model_copy(update=update))


def _part_folders(parsed: ParsedConfig, folder: Path) -> dict[str, Path]:
    """As ``code_tree`` has them. Raises ConfigInvalid where one does not lie in what was brought."""
    options = _options_of(parsed)
    parts = options.code_parts() if options is not None else ()
    above = "trainingService" if parsed.settings.training_service is not None else "trialOptions"
    outside = [part for part in parts if not Path(part.folder).is_relative_to(folder)]
    if outside:
        raise ConfigInvalid([parsed.error_at(".".join(map(str, (above, *part.place))), _ELSEWHERE) for part in outside])
    return part_folders(parts)


def _folder_of(parsed: ParsedConfig, folder: Path) -> Path:
    """The part of what was brought that is the trials' code. Raises ConfigInvalid."""
    settings = parsed.settings
    code = settings.trial_code_directory or folder
    if not code.is_relative_to(folder) and not _part_folders(parsed, folder):  # those are told at their roles
        raise ConfigInvalid([parsed.error_at("trialCodeDirectory", _ELSEWHERE)])
    for name, algorithm in (("tuner", settings.tuner), ("assessor", settings.assessor)):
        if algorithm and algorithm.code_directory and algorithm.code_directory.is_relative_to(folder):
            raise ConfigInvalid([parsed.error_at(f"{name}.codeDirectory",
                                                 f"is in the code of the trials, which the {name} cannot access; it "
                                                 "must be a folder on the server.")])
    return code
