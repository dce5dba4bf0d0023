"""Several clusters in one file: our list ``clusters``, and NNI's list of platforms under ``trainingService``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import Field

from nniweb.experiments.config.cluster_defaults import ClusterDefaults
from nniweb.experiments.config.document import (
    INHERITABLE,
    MOST_CLUSTERS,
    ClusterEntryDocument,
    ExperimentDocument,
)
from nniweb.experiments.config.fields.walk import FieldWalk
from nniweb.experiments.config.findings import Findings
from nniweb.experiments.config.platform_section import (
    SECTION,
    PlatformSection,
    inheritable_of,
    load,
    platform_of,
    read_platform_section,
    read_trial_options,
)
from nniweb.experiments.config.settings import ClusterEntry
from nniweb.experiments.config.yaml_positions import Path
from trainingservice.base import TrainingService
from trainingservice.cluster_settings import ClusterSettings, SettingsModel, TrialOptions
from trainingservice.words.shown_value import shown
from trainingservice.words.spellings import fold


class ClustersDocument(SettingsModel):
    """The list alone, for changes of an experiment."""

    clusters: list[ClusterEntryDocument] = Field([], max_length=MOST_CLUSTERS)
    trial_gpu_number: int | None = None


#: What each platform of NNI's list may have for itself of the fields that belong to the experiment.
_OF_EACH = fold("trialGpuNumber")
MayUse = Callable[[type[TrainingService], ClusterSettings | None], bool]


def fill_in_entries(document: dict[str, Any], cluster_defaults: Callable[[str], ClusterDefaults]
                    ) -> list[tuple[str, list[str]]]:
    """Give the entries of ``clusters`` what they leave out and their clusters say; the first one's cluster also gives
    what the file leaves out. The names of clusters, and of what was put in.
    """
    key = next((key for key in document if fold(key) == "clusters"), None)
    entries = document[key] if key is not None else None
    if key is None or not isinstance(entries, list) or len(entries) > MOST_CLUSTERS:
        return []
    told, filled = [], []
    for index, entry in enumerate(entries):
        name = next((entry[one] for one in entry if fold(one) == "name"), None) if isinstance(entry, dict) else None
        if not isinstance(name, str):
            filled.append(entry)
            continue
        defaults, entry = cluster_defaults(name).without(["trialCodeDirectory"]), dict(entry)
        place = next((one for one in entry if fold(one) == "trialoptions"), "trialOptions")
        options = entry.get(place) or {}
        if isinstance(options, dict):
            options = dict(options)
            if put_in := defaults.fill_in(document if index == 0 else dict(defaults.experiment), None, options):
                told.append((name, put_in))
            if options:
                entry[place] = options
        filled.append(entry)
    document[key] = filled
    return told


def take_out_long_list(document: dict[str, Any], findings: Findings) -> None:
    """Take a list ``clusters`` out that is too long, after adding so: none of its entries is looked at."""
    for key in [key for key, value in document.items() if fold(key) == "clusters" and isinstance(value, list)]:
        if len(document[key]) > MOST_CLUSTERS:
            findings.spelt(("clusters",), (key,))
            findings.add("clusters", f"must have at most {MOST_CLUSTERS} entries")
            del document[key]


def with_home(document: ExperimentDocument, findings: Findings) -> ExperimentDocument:
    """With the first cluster of the list as the cluster of the experiment, and its options as the trials'."""
    if not document.clusters:
        return document
    for field, given, inner in (("cluster", document.cluster, "name"),
                                ("trialOptions", document.trial_options, "trialOptions")):
        if given:
            findings.add(field, "cannot be given together with clusters; put it into an entry of clusters")
        else:  # what is wrong with it is told at the entry
            findings.spelt((field,), findings.raw(("clusters", 0, inner)))
    home = document.clusters[0]
    return document.model_copy(update={"cluster": home.name, "trial_options": home.trial_options})


def read_entries(document: ExperimentDocument | ClustersDocument, home: TrialOptions | None, walk: FieldWalk,
                 context: dict[str, Any], cluster_platform: Callable[[str], str | None] | None, may_use: MayUse, *,
                 home_is_read: bool = True) -> tuple[ClusterEntry, ...]:
    """The entries of ``clusters``, after adding what is wrong. ``home``: options of the first, read already."""
    findings = walk.findings
    _check_names(document.clusters, findings)
    entries = []
    for index, entry in enumerate(document.clusters):
        options = home if index == 0 and home_is_read else _options(entry, index, walk, {
            **context, "trial_gpu_number": _gpu_number(entry, document)}, cluster_platform, may_use)
        entries.append(ClusterEntry(
            name=entry.name, up_to=entry.up_to, weight=entry.weight, cost=entry.cost, after=_after(entry),
            drained=entry.drained, trial_gpu_number=entry.trial_gpu_number, trial_options=options))
    if entries and all(entry.drained or not entry.weight for entry in entries):
        findings.add("clusters", "has no cluster that may get a trial; give one of them a weight, and do not drain it")
    return tuple(entries)


def _gpu_number(entry: ClusterEntryDocument, document: ExperimentDocument | ClustersDocument) -> int | None:
    return document.trial_gpu_number if entry.trial_gpu_number is None else entry.trial_gpu_number


def _options(entry: ClusterEntryDocument, index: int, walk: FieldWalk, context: dict[str, Any],
             cluster_platform: Callable[[str], str | None] | None, may_use: MayUse) -> TrialOptions | None:
    findings, at = walk.findings, ("clusters", index)
    if cluster_platform is None:
        if entry.trial_options is not None:
            findings.add((*at, "trialOptions"), "cannot be read here, because the clusters of the server are not "
                                                "known; start the experiment on the server")
        return None
    name = cluster_platform(entry.name)
    if name is None:
        findings.add((*at, "name"), f"there is no cluster named {shown(entry.name)} that you may use")
        return None
    platform = load(name, (*at, "name"), findings)
    if platform is None or not may_use(platform, None):
        return None
    options = read_trial_options(entry.trial_options or {}, platform, (*at, "trialOptions"), walk, context)
    _check_roles(options, (*at, "trialOptions"), findings)
    return options


def _check_roles(options: TrialOptions | None, at: Path, findings: Findings) -> None:
    """Folders of roles are packed for the home's platform alone."""
    if options is not None and any(options.code_directories().values()):
        findings.add(at, "names folders for roles, which only the first cluster of an experiment may have")


def _after(entry: ClusterEntryDocument) -> tuple[str, ...]:
    given = entry.after or []
    return tuple(dict.fromkeys([given] if isinstance(given, str) else given))


def _check_names(entries: Sequence[ClusterEntryDocument], findings: Findings) -> None:
    names = [entry.name for entry in entries]
    after = {entry.name: _after(entry) for entry in entries}
    for index, entry in enumerate(entries):
        if entry.name in names[:index]:
            findings.add(("clusters", index, "name"), f"{shown(entry.name)} is in the list already")
        for name in after[entry.name]:
            if name not in names:
                findings.add(("clusters", index, "after"), f"{shown(name)} is not in the list clusters")
        if entry.name in _all_before(entry.name, after):
            findings.add(("clusters", index, "after"), "leads back to the cluster itself; one of them has to be first")


def _all_before(name: str, after: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    left = list(after.get(name, ()))
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += after.get(one, ())
    return found


# --- NNI's list of platforms -------------------------------------------------------------------


def take_sections(sections: Sequence[Any], written: str, document: dict[str, Any], findings: Findings
                  ) -> list[dict[str, Any]]:
    """The platforms of NNI's list; [] after adding what is wrong with it.

    What belongs to the experiment is moved to the first one, and must be the same in all.
    """
    findings.spelt(SECTION, (written, 0))
    for index in range(len(sections)):
        findings.spelt((*SECTION, index), (written, index))
    if not sections:
        findings.add_raw((written,), "is an empty list; name a platform, such as {platform: local}")
    for index, section in enumerate(sections):
        if not isinstance(section, dict):
            findings.add_raw((written, index), "must be a group of fields such as platform: local, not "
                                               f"{shown(section)}")
            return []
    found = [dict(section) for section in sections]
    at_top = {fold(key): value for key, value in document.items()}
    for index, section in enumerate(found[1:], 1):
        for key in inheritable_of(section, platform_of(section)):
            if fold(key) == _OF_EACH:
                continue
            value = section.pop(key)
            mine = next((one for one in found[0] if fold(one) == fold(key)), None)
            known = found[0][mine] if mine is not None else at_top.get(fold(key))
            if known is None:
                name = next(one for one in INHERITABLE if fold(one) == fold(key))
                found[0][name] = value
            elif value not in (None, "", known):
                findings.add_raw((written, index, key), "differs from that of another platform; it is the same for all "
                                                        "platforms of an experiment")
    return found


def read_sections(sections: Sequence[dict[str, Any]], first: PlatformSection | None, walk: FieldWalk,
                  context: dict[str, Any], may_use: Callable[[type[TrainingService], ClusterSettings], bool]
                  ) -> tuple[ClusterEntry, ...]:
    """Entries for the platforms of NNI's list, after adding what is wrong. ``first``: the first one, read already."""
    entries = [ClusterEntry(training_service=first)]
    for index, section in enumerate(sections[1:], 1):
        key = next((one for one in section if fold(one) == _OF_EACH), None)
        gpus = section.pop(key) if key is not None else None
        at = (*SECTION, index)
        if gpus is not None and (isinstance(gpus, bool) or not isinstance(gpus, int) or gpus < 0):
            walk.findings.add((*at, "trialGpuNumber"), f"must be a whole number, not {shown(gpus)}")
            gpus = None
        read = read_platform_section(section, walk, context if gpus is None else {**context, "trial_gpu_number": gpus},
                                     may_use, at)
        _check_roles(read.options if read is not None else None, at, walk.findings)
        entries.append(ClusterEntry(training_service=read, trial_gpu_number=gpus))
    return tuple(entries)
