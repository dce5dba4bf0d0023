"""The code of a launch: where it comes from, how much it is, and how it is kept for the trials."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from django.utils import timezone

from nniweb.annotation.reading_process import AnnotationsInvalid
from nniweb.experiments.config.settings import ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import code_archives
from nniweb.experiments.launch.git_source import GitSource
from nniweb.experiments.models import CodeArchive
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import CodePart, TrialOptions, part_folders
from trainingservice.code.code_archive import CodeRefused, code_tree
from trainingservice.errors import TrainingServiceError


@dataclass(frozen=True)
class UploadedCode:
    """A code archive (tar.gz) that came with the request, already checked and rewritten."""

    path: Path
    sha256: str
    file_count: int
    #: Of the files, before packing.
    bytes: int
    #: Where it lies unpacked while the request goes on.
    folder: Path
    #: As ``code_tree`` has them, there too.
    parts: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class GitCode:
    """Code that the worker fetches after the launch; ``token`` opens it, where it is not public."""

    source: GitSource
    token: str = field(default="", repr=False)
#: Code that does not lie in a folder on this server.
BroughtCode = UploadedCode | GitCode


@dataclass(frozen=True)
class CodeSize:
    """What is packed for the trials. Folders that trials run in themselves are not packed."""

    file_count: int
    #: Of the files, before packing.
    bytes: int


def _packs_code(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings) -> bool:
    """Whether trials get copies. The annotations are carried out in those only, never in the folder itself; and so are
    code variants.
    """
    return platform.ships_code or options.copies_code() or settings.use_annotation or bool(settings.code_variants)


def code_size(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings
               ) -> CodeSize | None:
    """How much would be packed. Raises Refused over the limits."""
    if not _packs_code(platform, options, settings) or settings.trial_code_directory is None:
        return None
    parts = options.code_parts()
    try:
        files = [entry for entry in code_tree(settings.trial_code_directory, part_folders(parts))
                 if not entry.is_folder]
    except TrainingServiceError as error:
        raise Refused(str(error), _field_of(error, parts, settings)) from None
    return CodeSize(len(files), sum(entry.size for entry in files))


def keep_code(platform: type[TrainingService], options: TrialOptions, settings: ExperimentSettings,
               code: BroughtCode | None) -> CodeArchive | None:
    """Store the code as an archive; None where trials run in its folder or the worker fetches it. Raises Refused."""
    now = timezone.now()
    if isinstance(code, GitCode):
        return None
    if code is not None and options.code_in_image():
        return None
    if code is not None:
        return code_archives.keep_archive(code.path, code.sha256, code.file_count, now)
    if not _packs_code(platform, options, settings) or settings.trial_code_directory is None:
        return None
    parts = options.code_parts()
    folders = part_folders(parts)
    try:
        if settings.use_annotation:
            return _keep_annotated(settings.trial_code_directory, folders, settings, now)
        return code_archives.keep_folder(settings.trial_code_directory, now, folders)
    except TrainingServiceError as error:
        raise Refused(str(error), _field_of(error, parts, settings)) from None


def _field_of(error: TrainingServiceError, parts: Sequence[CodePart], settings: ExperimentSettings) -> str:
    """The field that names the folder that cannot be packed."""
    if not parts:
        return "trialCodeDirectory"
    name = error.part if isinstance(error, CodeRefused) else ""
    place = next((part.place for part in parts if part.name == name), parts[0].place)
    return ".".join(map(str, ("trialOptions" if settings.training_service is None else "trainingService", *place)))


def _keep_annotated(folder: Path, parts: Mapping[str, Path], settings: ExperimentSettings, now: datetime
                    ) -> CodeArchive:
    try:
        archive, found = code_archives.keep_annotated_folder(folder, now, parts)
    except AnnotationsInvalid as invalid:
        raise Refused.for_fields([("useAnnotation", str(problem)) for problem in invalid.problems]) from None
    if found.search_space != settings.search_space:
        raise Refused("The annotations in the code were changed while it was read. Launch it again.", "useAnnotation")
    return archive


def scratch_folder() -> "tempfile.TemporaryDirectory[str]":
    """A folder for an upload on its way in."""
    from django.conf import settings as django_settings

    return tempfile.TemporaryDirectory(dir=django_settings.DATA_FOLDER)
