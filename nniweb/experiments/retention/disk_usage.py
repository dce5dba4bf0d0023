"""How much room experiments and the parts of the data folder take: measured in the background, a little at a time.

Read-only but for the rows that keep what was found. Requests only read those.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.storage import storages
from django.db import connection
from django.db.models import Count, Exists, Model, OuterRef, Sum
from django.db.models.functions import Length

from nniweb.experiments.launch.checkpoint_folders import checkpoint_folder
from nniweb.experiments.models import (
    Attempt,
    CheckpointChunk,
    CodeArchive,
    CodeVariant,
    DiskUsage,
    Experiment,
    ExperimentEvent,
    FolderUsage,
    LogLine,
    Metric,
    MetricNumber,
    ResourceReading,
    Trial,
    TrialEvent,
    TrialFile,
    TrialOutput,
    TrialParameters,
    TunerEvent,
)
from nniweb.storage.elsewhere import is_elsewhere

#: Bytes of a row with its entries in indexes, beside the texts that are counted: measured on SQLite.
_ROW: dict[type[Model], int] = {
    Trial: 700, Attempt: 900, Metric: 190, TrialOutput: 110, ResourceReading: 220, TrialEvent: 120,
    TrialParameters: 200, MetricNumber: 100, TunerEvent: 230, LogLine: 150, ExperimentEvent: 130}
#: Columns whose length is counted.
_TEXT: dict[type[Model], str] = {Metric: "value", TrialOutput: "data", LogLine: "message"}
_OF_ATTEMPTS: tuple[type[Model], ...] = (Metric, TrialOutput, ResourceReading)
_OF_TRIALS: tuple[type[Model], ...] = (Attempt, TrialEvent, TrialParameters, MetricNumber)
_OF_EXPERIMENTS: tuple[type[Model], ...] = (TunerEvent, LogLine, ExperimentEvent)
#: Trials whose rows are counted in one question.
SLICE = 200
#: Directory entries that are looked at without a rest.
ENTRIES = 500

#: Part of the data folder -> folders in it. What is in none of them is "other"; files that lie in the folder itself
#: are "database", which they are but for a few.
PARTS = {"code": ("files/code", "files/variants", "cache", "fetches"), "kept files": ("files/trials",),
         "checkpoints": ("checkpoints", "files/checkpoints"), "trial folders": ("clusters",)}
DATABASE, OTHER = "database", "other"
#: In the place of a host: the storage of files, where that is no folder of a host.
STORAGE = "file storage"


@dataclass
class _Sum:
    count: int = 0
    text: int = 0


def measure(experiment: Experiment, now: datetime, rest: Callable[[float], object]) -> None:
    """Count what the experiment has, a slice of its trials at a time with rests between, and keep it."""
    sums: dict[type[Model], _Sum] = {}
    files, stored, last = 0, 0, -1
    while True:
        chosen = list(Trial.objects.filter(experiment=experiment, sequence_id__gt=last).order_by("sequence_id")
                      .values_list("pk", "sequence_id")[:SLICE])
        if not chosen:
            break
        trials, last = [pk for pk, _ in chosen], chosen[-1][1]
        attempts = list(Attempt.objects.filter(trial__in=trials).values_list("pk", flat=True))
        _add(sums, Trial, len(trials))
        for model in _OF_ATTEMPTS:
            _count(sums, model, attempt__in=attempts)
        for model in _OF_TRIALS:
            _count(sums, model, trial__in=trials)
        segments = TrialOutput.objects.filter(attempt__in=attempts)
        stored += segments.aggregate(size=Sum("stored_size"))["size"] or 0
        kept = TrialFile.objects.filter(attempt__in=attempts).aggregate(count=Count("pk"), size=Sum("size"))
        _add(sums, TrialFile, kept["count"])
        files += kept["size"] or 0
        rest(0.005)
    for model in _OF_EXPERIMENTS:
        _count(sums, model, experiment=experiment)
    output = sums.get(TrialOutput, _Sum())
    output.text += stored
    sizes = {
        "rows_bytes": sum(_bytes(model, one) for model, one in sums.items() if model is not TrialOutput),
        "output_bytes": _bytes(TrialOutput, output), "output_stored_bytes": stored, "files_bytes": files,
        "checkpoints_bytes": folder_size(checkpoint_folder(experiment), rest)[0] + (
            CheckpointChunk.objects.filter(experiment=experiment).aggregate(size=Sum("size"))["size"] or 0),
        "code_bytes": (experiment.code.size if experiment.code is not None else 0) + (
            CodeVariant.objects.filter(Exists(Trial.objects.filter(variant=OuterRef("pk"), experiment=experiment)),
                                       removed_at=None).aggregate(size=Sum("size"))["size"] or 0)}
    DiskUsage.objects.update_or_create(experiment=experiment, defaults={
        **sizes, "total_bytes": sum(sizes.values()) - stored, "measured_at": now,
        "trials": sums.get(Trial, _Sum()).count, "rows": sum(one.count for one in sums.values()) + 1})


def _add(sums: dict[type[Model], _Sum], model: type[Model], count: int, text: int = 0) -> None:
    one = sums.setdefault(model, _Sum())
    one.count += count
    one.text += text


def _count(sums: dict[type[Model], _Sum], model: type[Model], **which: Any) -> None:
    rows = model._default_manager.filter(**which)
    text = _TEXT.get(model)
    if text is None:
        _add(sums, model, rows.count())
    else:
        found = rows.aggregate(count=Count("pk"), text=Sum(Length(text)))
        _add(sums, model, found["count"], found["text"] or 0)


def _bytes(model: type[Model], one: _Sum) -> int:
    return one.count * _ROW.get(model, 150) + one.text


def folder_size(folder: Path, rest: Callable[[float], object]) -> tuple[int, int]:
    """Bytes on the disk and number of files below a folder (0 where there is none). Links are not followed."""
    size = files = 0
    for number, entry in enumerate(_entries(folder), 1):
        try:
            size += entry.stat(follow_symlinks=False).st_blocks * 512
            files += not entry.is_dir(follow_symlinks=False)
        except OSError:
            continue  # it went meanwhile, or is not ours to see
        if number % ENTRIES == 0:
            rest(0.02)
    return size, files


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                entries = list(found)
        except OSError:
            continue
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from entries


def measure_data_folder(host: str, now: datetime, rest: Callable[[float], object]) -> None:
    """Add up the parts of this host's data folder and keep the sums."""
    root = Path(settings.DATA_FOLDER)
    found: dict[str, tuple[int, int]] = dict.fromkeys((DATABASE, *PARTS, OTHER), (0, 0))

    def add(part: str, size: tuple[int, int]) -> None:
        found[part] = (found[part][0] + size[0], found[part][1] + size[1])

    for part, folders in PARTS.items():
        for name in folders:
            add(part, folder_size(root / name, rest))
    named = {name.partition("/")[0] for folders in PARTS.values() for name in folders}
    for entry in os.scandir(root):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in named:
                add(OTHER, folder_size(Path(entry.path), rest))
        else:
            add(DATABASE, (entry.stat(follow_symlinks=False).st_blocks * 512, 1))
    _keep(host, found, now)
    if is_elsewhere():
        _keep(STORAGE, _in_storage(), now)
    else:
        FolderUsage.objects.filter(host=STORAGE).delete()


def _in_storage() -> dict[str, tuple[int, int]]:
    """What rows say of the files in the storage, as far as experiments are measured: nobody can add up a storage."""
    code = [model._default_manager.aggregate(size=Sum("size"), files=Count("pk"))
            for model in (CodeArchive, CodeVariant)]
    of_experiments = DiskUsage.objects.aggregate(kept=Sum("files_bytes"), output=Sum("output_stored_bytes"),
                                                 checkpoints=Sum("checkpoints_bytes"))
    return {"code": (sum(one["size"] or 0 for one in code), sum(one["files"] for one in code)),
            "kept files": (of_experiments["kept"] or 0, 0), "output": (of_experiments["output"] or 0, 0),
            **({} if "checkpoints" in storages.backends else {"checkpoints": (of_experiments["checkpoints"] or 0, 0)})}


def _keep(host: str, found: dict[str, tuple[int, int]], now: datetime) -> None:
    for part, (size, files) in found.items():
        FolderUsage.objects.update_or_create(host=host, part=part, defaults={
            "bytes": size, "files": files, "measured_at": now})


def database_bytes() -> tuple[int, int | None]:
    """Size of the database, and what is free inside it and will be used again (None: PostgreSQL does not say)."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT page_count * page_size, freelist_count * page_size"
                           " FROM pragma_page_count, pragma_page_size, pragma_freelist_count")
            size, free = cursor.fetchone()
            return size, free
        cursor.execute("SELECT pg_database_size(current_database())")
        return cursor.fetchone()[0], None


def installation_usage() -> dict[str, Any]:
    """The disk of this process's data folder as it is now, the database, and what the folders were measured at."""
    free: int | None = None
    size: int | None = None
    with suppress(OSError):
        size, _, free = shutil.disk_usage(settings.DATA_FOLDER)
    database, unused = database_bytes()
    hosts: dict[str, dict[str, Any]] = {}
    for row in FolderUsage.objects.order_by("host", "-bytes"):
        host = hosts.setdefault(row.host, {"host": row.host, "measured_at": row.measured_at, "bytes": 0, "parts": []})
        host["bytes"] += row.bytes
        host["parts"].append({"part": row.part, "bytes": row.bytes, "files": row.files})
    return {"data_folder": str(settings.DATA_FOLDER), "disk_free": free, "disk_size": size, "database": database,
            "database_unused": unused, "hosts": list(hosts.values())}
