"""From the text of a config file to an experiment's settings, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nniweb.experiments.config import v1_conversion
from nniweb.experiments.config.algorithm_section import read_algorithms, replicates_of
from nniweb.experiments.config.cluster_defaults import ClusterDefaults
from nniweb.experiments.config.cluster_list import (
    fill_in_entries,
    read_entries,
    read_sections,
    take_out_long_list,
    take_sections,
    with_home,
)
from nniweb.experiments.config.code_roots import CodeRoots
from nniweb.experiments.config.document import ExperimentDocument
from nniweb.experiments.config.errors import ConfigError
from nniweb.experiments.config.fields.walk import FieldWalk, model_fields
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.local_paths import LocalPaths
from nniweb.experiments.config.model_validation import validate
from nniweb.experiments.config.platform_section import (
    SECTION,
    SECTION_KEY,
    PlatformSection,
    inheritable_of,
    load,
    platform_of,
    read_platform_section,
    read_trial_options,
)
from nniweb.experiments.config.redaction import redacted_text
from nniweb.experiments.config.search_space.search_space_section import check_constraints_of, read_search_space
from nniweb.experiments.config.search_space.start_section import check_start
from nniweb.experiments.config.settings import ClusterEntry, ExperimentSettings
from nniweb.experiments.config.start_limits import check_start_limits
from nniweb.experiments.config.trial_script.code_variants import read_code_variants
from nniweb.experiments.config.trial_script.command_names import check_command_names
from nniweb.experiments.config.trial_script.metrics_section import read_metrics
from nniweb.experiments.config.yaml_positions import SourceDocument, read_mapping, read_text
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, TrialOptions, part_folders
from trainingservice.platforms import is_multi_phase
from trainingservice.reasons import Reason
from trainingservice.words.shown_value import shown
from trainingservice.words.spellings import fold

#: Words of the v1 form that people mix into the v2 form.
_V1_WORDS = {fold(word): f"belongs to NNI's v1 form, which has the field {v1_conversion.PLATFORM_KEY}; in the v2 form "
                         f"it is {v2}"
             for word, v2 in {"trial": "trialCommand, trialCodeDirectory and trialGpuNumber",
                              "localConfig": "part of trainingService",
                              "machineList": "part of trainingService",
                              "maxExecDuration": "maxExperimentDuration",
                              "maxTrialNum": "maxTrialNumber",
                              "searchSpacePath": "searchSpaceFile",
                              "logDir": "experimentWorkingDirectory"}.items()} | {
    fold(word): f"belongs to NNI's v1 form and {meaning}; remove it"
    for word, meaning in v1_conversion.V1_DROPPED.items() if "." not in word}


WhyNotHere = Callable[[type[TrainingService], ClusterSettings | None], list[tuple[str, str]]]


@dataclass(frozen=True)
class ParsedConfig:
    """A config that is right. ``original_text`` is the file as it was written, its secrets masked."""

    settings: ExperimentSettings
    #: Sentences for a person: what of the file has no effect here, or not the one it had in NNI.
    notes: list[str]
    source_version: Literal["v1", "v2"]
    original_text: str = field(repr=False)
    _findings: Findings = field(repr=False, compare=False)

    def error_at(self, field: str, message: str) -> ConfigError:
        """What a later check found wrong with a field of the v2 form, at its place and in the file's own spelling."""
        return self._findings.error_at(
            tuple(int(part) if part.isascii() and part.isdigit() else part for part in field.split(".")) if field
            else (), message)


def parse_experiment_config(source: str | Mapping[str, Any], base_directory: Path | None = None, *,
                            must_exist: bool = True, roots: CodeRoots | None = None,
                            cluster_platform: Callable[[str], str | None] | None = None,
                            cluster: str | None = None, why_not_here: WhyNotHere | None = None,
                            cluster_defaults: Callable[[str], ClusterDefaults] | None = None) -> ParsedConfig:
    """Read a config in NNI's v1 or v2/v3 form, as YAML or JSON text or as parsed values.

    Relative paths start from ``base_directory``; without it they are errors. With ``must_exist``
    False folders and files that only trials need are not looked for; with ``roots`` paths that may not be named
    are errors. ``cluster_platform`` tells the
    platform of the cluster that a file may name (None: there is no such cluster); without it the
    name is taken as it is and ``trialOptions`` cannot be given. ``cluster`` is one that takes the place
    of what the file says about where to run. ``cluster_defaults`` tells what the metadata of the cluster say for files
    that leave it out. ``why_not_here`` tells why the person may not use a platform (and,
    where the file describes it, these settings of it): fields and sentences. It is asked before any file that the text
    names is read. Raises ConfigInvalid and nothing else.
    """
    text = source if isinstance(source, str) else None
    document = read_text(source) if isinstance(source, str) else read_mapping(source)
    reading = _Reading(document, LocalPaths(base_directory and base_directory.absolute(), must_exist, roots),
                       cluster_platform, cluster, why_not_here)
    if cluster_defaults is not None:
        reading.fill_in(cluster_defaults)
    settings = reading.read()
    secrets = [reading.findings.raw(path) for path in reading.walk.secrets]
    return ParsedConfig(settings, reading.findings.notes, reading.version, redacted_text(text, document, secrets),
                        reading.findings)


class _Reading:
    """One reading of one document: goes through all parts, also after an error, and only then gives up."""

    def __init__(self, source: SourceDocument, paths: LocalPaths,
                 cluster_platform: Callable[[str], str | None] | None, chosen_cluster: str | None,
                 why_not_here: WhyNotHere | None) -> None:
        self.version: Literal["v1", "v2"] = "v1" if v1_conversion.is_v1(source.data) else "v2"
        if self.version == "v1":
            self._data, self.findings = v1_conversion.convert(source)
        else:
            self._data, self.findings = dict(source.data), Findings(source.places)
        self._paths = paths
        self._cluster_platform = cluster_platform
        self._chosen_cluster = chosen_cluster
        self._why_not_here = why_not_here
        #: The platforms of NNI's list, where the file has one.
        self._sections: list[dict[str, Any]] = []
        self._is_forbidden = False
        self._mounts_storage = False
        #: The section could not be read, and on its platform it may hold the trial's command.
        self._command_is_unknown = False
        self.walk = FieldWalk(self.findings, paths)

    def fill_in(self, cluster_defaults: Callable[[str], ClusterDefaults]) -> None:
        """Give the document what it leaves out and its cluster says."""
        named = next((value for key, value in self._data.items() if fold(key) == "cluster"), None)
        cluster = self._chosen_cluster or named
        if cluster is None:
            for name, put_in in fill_in_entries(self._data, cluster_defaults):
                self.findings.note(f"Taken from the metadata of the cluster {name}: {', '.join(put_in)}.")
        if not isinstance(cluster, str):
            return
        defaults = cluster_defaults(cluster)
        if self._paths.base_directory is not None:  # the file's own folder is meant
            defaults = defaults.without(["trialCodeDirectory"])
        section = next((value for key, value in self._data.items() if fold(key) == fold(SECTION_KEY)), None)
        section = section if isinstance(section, dict) else None
        if section is not None and (there := self._platform_there(cluster)) is not None \
                and there is platform_of(section):
            options = section
        else:
            key = next((key for key in self._data if fold(key) == "trialoptions"), "trialOptions")
            options = self._data.get(key) or {}
            if not isinstance(options, dict):
                return  # said when it is read
            options = dict(options)
            if defaults.options:
                self._data[key] = options
        if put_in := defaults.fill_in(self._data, section, options):
            self.findings.note(f"Taken from the metadata of the cluster {cluster}: {', '.join(put_in)}.")

    def read(self) -> ExperimentSettings:
        section = self._take_section()
        document = self._document(section)
        context = {"must_exist": self._paths.must_exist, "trial_gpu_number": document.trial_gpu_number}
        platform_section = self._platform_section(section, document, context)
        if self._chosen_cluster is None:
            trial_options = self._trial_options(document, context)
        else:
            document = self._with_chosen_cluster(self._chosen_cluster, document, platform_section)
            trial_options = self._options_there(platform_section, document, context)
            platform_section = None
        if platform_section is not None:
            document, placed = self._with_code_of_roles(document, platform_section.options, SECTION)
            platform_section = platform_section.model_copy(update={"options": placed})
        elif trial_options is not None:
            document, trial_options = self._with_code_of_roles(document, trial_options, ("trialOptions",))
        entries = self._entries(document, platform_section, trial_options, context)
        if self._is_forbidden:
            self.findings.raise_if_any()
        options = platform_section.options if platform_section is not None else trial_options
        if document.multi_phase and section is not None and self._chosen_cluster is None:
            self._check_phases(section)
        command = self._command(document, options)
        check_start_limits(command, document.environment, self.findings)
        folder = self._code_folder(document, options)
        parts = part_folders(options.code_parts()) if options is not None else {}
        search_space, places = read_search_space(document, folder, parts, self.findings, self._paths)
        algorithms = read_algorithms(document, search_space, places, self.findings, self._paths,
                                     needs_tuner=self.version == "v1")
        check_constraints_of(document, search_space, algorithms.tuner if algorithms is not None else None,
                             self.findings)
        check_start(document, search_space, algorithms.tuner if algorithms is not None else None, self.findings)
        check_command_names(command, search_space, algorithms.tuner if algorithms is not None else None, self.findings)
        metrics = read_metrics(document, self.findings)
        code_variants = read_code_variants(document.code_variants, use_annotation=document.use_annotation,
                                           multi_phase=document.multi_phase, findings=self.findings)
        self._small_print(document)
        self.findings.raise_if_any()
        assert algorithms is not None  # its absence is an error
        return ExperimentSettings(
            experiment_name=document.experiment_name or "",
            description=document.description or "",
            tags=tuple(dict.fromkeys(document.tags)),
            search_space=search_space,
            use_annotation=document.use_annotation,
            trial_command=command,
            trial_code_directory=folder,
            environment=dict(document.environment),
            keep_files=tuple(document.keep_files),
            retry=document.retry.model_dump(by_alias=True, exclude_defaults=True) if document.retry else {},
            failed_trials=(document.failed_trials.model_dump(by_alias=True, exclude_defaults=True)
                           if document.failed_trials else {}),
            retention=document.retention.model_dump(exclude_none=True) if document.retention else {},
            checkpoints=_checkpoints(document),
            checkpoint_grace=document.checkpoint_grace,
            checkpoint_signal=document.checkpoint_signal,
            pause=document.pause,
            budget=document.budget.model_dump(by_alias=True, exclude_none=True) if document.budget else {},
            priority=document.priority,
            preemptible=document.preemptible,
            warm_start=(tuple(document.warm_start) if isinstance(document.warm_start, list)
                        else bool(document.warm_start)),
            code_variants=code_variants,
            metrics=metrics,
            replicates=replicates_of(document),
            multi_phase=document.multi_phase,
            trial_concurrency=document.trial_concurrency,
            trial_gpu_number=document.trial_gpu_number,
            gpu_memory=None if document.gpu_memory == "whole" else document.gpu_memory,
            max_experiment_duration=document.max_experiment_duration,
            max_trial_number=document.max_trial_number,
            max_trial_duration=document.max_trial_duration,
            nni_manager_ip=document.nni_manager_ip or None,
            debug=document.debug,
            log_level=document.log_level or ("debug" if document.debug else "info"),
            tuner=algorithms.tuner,
            assessor=algorithms.assessor,
            tuner_gpu_indices=None if document.tuner_gpu_indices is None else tuple(document.tuner_gpu_indices),
            optimize_mode=algorithms.optimize_mode,
            objectives=tuple(one.model_dump() for one in document.objectives),
            constraints=tuple(document.constraints),
            outcome_constraints=tuple(document.outcome_constraints),
            start_points=tuple(document.start_points),
            start_from=tuple(dict.fromkeys(document.start_from)),
            seed=algorithms.seed,
            training_service=platform_section,
            cluster=document.cluster,
            trial_options=trial_options,
            clusters=entries,
            shared_storage=document.shared_storage,
        )

    def _take_section(self) -> dict[str, Any] | None:
        """Take the trainingService section out of the document; None where there is none that can be read."""
        keys = [key for key in self._data if fold(key) == fold(SECTION_KEY)]
        if not keys:
            return None
        written, *more = keys
        if self.version == "v2":
            self.findings.spelt(SECTION, (written,))
        for key in more:
            self.findings.add_raw((key,), f"is the same field as {written}, which is already given", at_key=True)
        section = [self._data.pop(key) for key in keys][0]
        if isinstance(section, list) and self.version == "v2":
            self._sections = take_sections(section, written, self._data, self.findings)
            section = self._sections[0] if self._sections else None
        elif section is not None and not isinstance(section, dict):
            self.findings.add(SECTION, f"must be a group of fields such as platform: local, not {shown(section)}")
        return section if isinstance(section, dict) else None

    def _document(self, section: dict[str, Any] | None) -> ExperimentDocument:
        """The whole file less the section; where fields are wrong, a document without them."""
        take_out_long_list(self._data, self.findings)
        canonical = self.walk.mapping(self._data, (ExperimentDocument,), (), hints=_V1_WORDS,
                                      others=[SECTION_KEY])
        if section is not None:
            lifted = {key: value for key in inheritable_of(section, platform_of(section))
                      if (value := section.pop(key)) != ""}  # in NNI's files for Kubernetes they may be empty
            canonical |= self.walk.mapping(lifted, (ExperimentDocument,), (), raw=self.findings.raw(SECTION))
        secrets = frozenset(self.walk.secrets)
        document = validate(ExperimentDocument, canonical, (), self.findings, secrets)
        if document is None:
            rest = {key: value for key, value in canonical.items() if not self.findings.has_error((key,))}
            document = validate(ExperimentDocument, {"trialConcurrency": 1, **rest}, (), self.findings, secrets)
        if document is None:  # an error that belongs to no field
            self.findings.raise_if_any()
            raise AssertionError("a document that does not validate has errors")
        return with_home(document, self.findings) if self._chosen_cluster is None else document

    def _platform_section(self, section: dict[str, Any] | None, document: ExperimentDocument,
                          context: dict[str, Any]) -> PlatformSection | None:
        has_section = section is not None or self.findings.has_error(SECTION)
        if has_section and document.cluster is not None:
            field = "clusters" if document.clusters else "cluster"
            self.findings.add(field, f"cannot be given together with {self.findings.spelling(SECTION)}; name a "
                                     "cluster of this server or describe a platform")
        if section is None:
            cluster = document.cluster or self._chosen_cluster
            said = any(self.findings.has_error(field) for field in ("cluster", "clusters"))
            if not has_section and cluster is None and not said:
                self.findings.add(SECTION, "is required; give trainingService (such as {platform: local}), cluster "
                                           "(the name of a cluster of this server) or clusters (several of them)")
            return None
        if self.version == "v1" and self.findings.has_error((*SECTION, "platform")):
            return None  # said while converting
        if self._chosen_cluster is not None:  # the section's settings count for nothing, and its options perhaps
            reads_files = (there := self._platform_there(self._chosen_cluster)) is not None \
                and there is platform_of(section)
            result = read_platform_section(section, self.walk, {**context, "reads_files": reads_files})
        else:
            result = read_platform_section(section, self.walk, context, self._may_use)
        platform = platform_of(section) if result is None else None
        if platform is not None:
            self._command_is_unknown = platform.options_model.own_command is not TrialOptions.own_command
        if result is not None and document.trial_gpu_number and self.version == "v2":
            known = model_fields((type(result.settings), type(result.options)))
            given = result.settings.model_fields_set | result.options.model_fields_set
            if "useActiveGpu" in known and "use_active_gpu" not in given:
                field = self.findings.spelling((*SECTION, "useActiveGpu"))
                self.findings.note(f"{field}: not given, so GPUs that other programs use get no trials. (NNI requires "
                                   "this field on the local platform.)")
        return None if result is None else self._with_storage(result, document)

    def _may_use(self, platform: type[TrainingService], settings: ClusterSettings | None) -> bool:
        """Whether the person may, after adding why not."""
        problems = self._why_not_here(platform, settings) if self._why_not_here is not None else []
        for place, message in problems:
            self.findings.add(tuple(place.split(".")) if place else (), message)
        self._is_forbidden |= bool(problems)
        return not problems

    def _platform_there(self, cluster: str) -> type[TrainingService] | None:
        """The platform of a cluster, where the person may use both."""
        name = self._cluster_platform(cluster) if self._cluster_platform is not None else None
        platform = load(name, ("cluster",), Findings({})) if name is not None else None
        may = platform is not None and (self._why_not_here is None or not self._why_not_here(platform, None))
        return platform if may else None

    def _with_storage(self, section: PlatformSection, document: ExperimentDocument) -> PlatformSection:
        """NNI has the share beside the platform; where the platform mounts it, it is a setting of the cluster."""
        storage = document.shared_storage
        if storage is None or "shared_storage" not in type(section.settings).model_fields:
            return section
        self._mounts_storage = self._chosen_cluster is None
        secrets = dict(section.secrets)
        if storage.storage_account_key is not None:
            secrets["sharedStorage.storageAccountKey"] = storage.storage_account_key.get_secret_value()
        return section.model_copy(update={"settings": section.settings.model_copy(update={"shared_storage": storage}),
                                          "secrets": secrets})

    def _with_chosen_cluster(self, chosen: str, document: ExperimentDocument,
                             section: PlatformSection | None) -> ExperimentDocument:
        """The document as if the file named this cluster. A section was read all the same: it may hold secrets."""
        replaced = SECTION if section is not None else ("clusters",) if document.clusters else \
            ("cluster",) if document.cluster not in (None, chosen) else None
        if replaced is not None:
            self.findings.note(f"{self.findings.spelling(replaced)}: not used; the cluster {chosen} was chosen "
                               "instead.")
        return document.model_copy(update={"cluster": chosen})

    def _options_there(self, section: PlatformSection | None, document: ExperimentDocument,
                       context: dict[str, Any]) -> TrialOptions | None:
        """On a cluster of the same platform the options in the file's section go on to hold."""
        name = self._cluster_platform(document.cluster) if self._cluster_platform and document.cluster else None
        if section is not None and section.platform == name:
            return section.options
        return self._trial_options(document, context)

    def _trial_options(self, document: ExperimentDocument, context: dict[str, Any]) -> TrialOptions | None:
        if document.cluster is None:
            if document.trial_options is not None:
                self.findings.add("trialOptions", "is only for experiments that name a cluster; without a cluster, "
                                                  f"give the options in {self.findings.spelling(SECTION)}")
            return None
        if self._cluster_platform is None:
            if document.trial_options is not None:
                self.findings.add("trialOptions", "cannot be read here, because the clusters of the server are not "
                                  "known; start the experiment on the server")
            return None
        name = self._cluster_platform(document.cluster)
        if name is None:
            self.findings.add("cluster", f"there is no cluster named {shown(document.cluster)} that you may use")
            return None
        platform = load(name, ("cluster",), self.findings)
        if platform is None or not self._may_use(platform, None):
            return None
        return read_trial_options(document.trial_options or {}, platform, ("trialOptions",), self.walk, context)

    def _entries(self, document: ExperimentDocument, section: PlatformSection | None, options: TrialOptions | None,
                 context: dict[str, Any]) -> tuple[ClusterEntry, ...]:
        """The clusters of a file that has several; () where it has one, or where one was chosen instead."""
        if self._chosen_cluster is not None:
            return ()
        if document.clusters:
            return read_entries(document, options, self.walk, context, self._cluster_platform, self._may_use)
        entries = read_sections(self._sections, section, self.walk, context, self._may_use) \
            if len(self._sections) > 1 else ()
        if document.multi_phase:
            for entry in entries[1:]:
                if entry.training_service is not None:
                    self._check_phases({"platform": entry.training_service.platform})
        return entries

    def _check_phases(self, section: dict[str, Any]) -> None:
        platform = platform_of(section)
        if platform is not None and is_multi_phase(platform) is False:
            self.findings.add("multiPhase", str(Reason("one_set_only", platform=platform.platform)))

    def _command(self, document: ExperimentDocument, options: TrialOptions | None) -> str:
        command = document.trial_command or ""
        if not command.strip() and options is not None:
            command = options.own_command()
        if not command.strip() and not self._command_is_unknown and not self.findings.has_error("trialCommand"):
            self.findings.add("trialCommand", ("is required" if document.trial_command is None else "is empty")
                              + "; give the shell command that runs one trial, such as python3 train.py")
        return command

    def _code_folder(self, document: ExperimentDocument, options: TrialOptions | None) -> Path | None:
        folder = document.trial_code_directory
        if options is not None and options.code_in_image():
            if folder is not None:
                self.findings.add("trialCodeDirectory", "must be left out where codeDirectoryInImage says that the "
                                                        "code is in the image")
            if document.use_annotation:
                self.findings.add("useAnnotation", "needs the code, but codeDirectoryInImage says that it is in the "
                                                   "image")
            return None
        if folder is None and self._paths.base_directory is not None:
            folder = self._paths.base_directory.resolve()
            if self._paths.roots is not None and (problem := self._paths.roots.problem(folder, str(folder))):
                self.findings.add("trialCodeDirectory", problem)
        if folder is not None and not self.findings.has_error("trialCodeDirectory"):
            problem = self._paths.folder_problem(folder)
            if problem:
                self.findings.add("trialCodeDirectory", problem)
        return folder

    def _with_code_of_roles(self, document: ExperimentDocument, options: TrialOptions, section: tuple[str | int, ...]
                            ) -> tuple[ExperimentDocument, TrialOptions]:
        """Both with the folders that files name for each role: one for all is the trial's own. Where they differ, each
        role that gets code names its own, absolute, and the trial's is that of the role that reports.
        """
        written = options.code_directories()
        if not any(written.values()):
            return document, options
        found: dict[str, Path] = {}
        unusable: set[Path] = set()
        for place, path in written.items():
            try:
                if path is not None and path not in found:
                    found[path] = self._paths.absolute(path)
                    if problem := self._paths.folder_problem(found[path]):
                        self.findings.add((*section, *place), problem)
                        unusable.add(found[path])
            except ValueError as error:
                self.findings.add((*section, *place), str(error))
        general = document.trial_code_directory
        default = general if general is not None or len(set(found.values())) != 1 else next(iter(found.values()))
        folders = {path: default if path is None else found.get(path) for path in written.values()}
        for place, path in written.items():
            if path is None and default is None:
                self.findings.add((*section, *place), (
                    "is required, because other roles name different folders and trialCodeDirectory, which is the "
                    "default, is not given"))
        if general is not None and general not in folders.values():
            self.findings.note(f"{self.findings.spelling('trialCodeDirectory')}: not used, because each role names its "
                               "own codeDirectory.")
        differ = len(set(folders.values())) > 1
        of_reporting = next(iter(folders.values()))
        if of_reporting in unusable:  # said already
            of_reporting = None
        return (document.model_copy(update={"trial_code_directory": of_reporting}),
                options.with_code_directories(lambda path: str(folders[path] or "") if differ else None))

    def _small_print(self, document: ExperimentDocument) -> None:
        findings = self.findings
        if document.experiment_working_directory is not None:
            findings.note(f"{findings.spelling('experimentWorkingDirectory')}: has no effect; all files are stored in "
                          "the server's data folder.")
        if document.advisor is not None:
            findings.note(f"{findings.spelling('advisor')}: NNI 3 calls this field tuner; it is read as tuner.")
        storage = document.shared_storage
        if storage is not None:
            for key in storage.missing():
                findings.add(("sharedStorage", key), f"is required for storageType {storage.storage_type}")
            if not self._mounts_storage and not storage.remote_mount_point.startswith("/"):
                findings.add(("sharedStorage", "remoteMountPoint"), "must be an absolute path here, such as "
                             "/mnt/share: a relative one begins at the home folder of the login on a machine of the "
                             "platform remote, which mounts it")
            if not self._mounts_storage:
                findings.note(f"{findings.spelling('sharedStorage')}: this platform mounts nothing. The share must "
                              "already be mounted on the machines of the trials; trials use its path there.")


def _checkpoints(document: ExperimentDocument) -> bool | dict[str, Any] | None:
    """As ``ExperimentSettings.checkpoints`` has it."""
    asked = document.checkpoints
    if asked is None or isinstance(asked, bool):
        return asked
    return asked.model_dump(by_alias=True, exclude_defaults=True) or True
