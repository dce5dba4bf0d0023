"""Variants as they are kept: once per content, shared by all trials that have the same."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Exists, OuterRef

from nniweb.experiments.models import CodeVariant, Trial
from nniweb.storage.elsewhere import StorageFailed, check_answers
from nniweb.storage.local_copies import copy_path, local_copy, remove_copy
from trainingservice.variants.code_variant import CodeVariant as VariantFile
from trainingservice.variants.code_variant import VariantContent, read_stored, stored_form

#: One without trials is kept for so long: it is stored before its trial is.
KEEP_UNUSED = timedelta(days=1)
#: Rows that one call of ``remove_unused_variants`` looks at.
MOST_AT_ONCE = 500


class VariantGone(Exception):
    """Its file is not there, or damaged. The text is a sentence."""


def keep_variant(content: VariantContent, now: datetime) -> CodeVariant:
    """Store it, unless it is there and whole. Raises OSError."""
    stored = stored_form(content)
    path = f"variants/{content.sha256}.json"
    # the row first: it keeps ``remove_unused_variants`` from taking the file away
    variant, _ = CodeVariant.objects.update_or_create(sha256=content.sha256, defaults={
        "size": len(stored), "changed_bytes": content.size, "file_count": len(content.files), "storage_path": path,
        "last_used": now, "removed_at": None})
    if default_storage.exists(path) and not _is_whole(variant):
        default_storage.delete(path)
    if not default_storage.exists(path):
        default_storage.save(path, ContentFile(stored))
    return variant


def content_of(variant: CodeVariant) -> VariantContent:
    """What is in it. Raises VariantGone, and StorageFailed where nothing is known of it."""
    if variant.removed_at is not None:
        raise VariantGone(f"Retention removed it, with the copy of the code, on {variant.removed_at:%Y-%m-%d}.")
    try:
        with default_storage.open(variant.storage_path) as file:
            content = read_stored(file.read())
    except StorageFailed:
        raise
    except (OSError, ValueError) as error:
        raise VariantGone(f"Its file {variant.storage_path} cannot be read ({error}). Restore it from a backup, or "
                          "submit the trial again.") from None
    if content.sha256 != variant.sha256:
        raise VariantGone(f"Its file {variant.storage_path} is damaged. Restore it from a backup, or submit the trial "
                          "again.")
    return content


def for_platforms(variant: CodeVariant) -> VariantFile:
    """The variant as a form has it: with a path on this machine. Where the storage is elsewhere it is fetched into the
    data folder. Where there is no file (any more) there is none at the path, and whoever reads it says so. Raises
    StorageFailed.
    """
    try:
        return VariantFile(local_copy(variant.storage_path, variant.size), variant.sha256)
    except StorageFailed:
        raise
    except OSError:
        return VariantFile(copy_path(variant.storage_path), variant.sha256)


def remove_unused_variants(now: datetime) -> int:
    """Remove the files of variants whose code no experiment has any more, and the rows of those that no trial has;
    returns of how many. Raises StorageFailed.
    """
    trials = Trial.objects.filter(variant=OuterRef("pk"))
    unused = CodeVariant.objects.filter(
        ~Exists(trials.filter(experiment__code__isnull=False)), last_used__lt=now - KEEP_UNUSED)
    due = unused.filter(removed_at=None) | unused.filter(~Exists(trials))
    removed = 0
    for variant in due.order_by("pk")[:MOST_AT_ONCE]:
        check_answers()
        with transaction.atomic():
            # locks the row, unless somebody has stored the same since
            still = unused.filter(pk=variant.pk, last_used=variant.last_used)
            if not still.update(removed_at=variant.removed_at or now):
                continue
            if not Trial.objects.filter(variant=variant).exists():
                variant.delete()
            default_storage.delete(variant.storage_path)
            remove_copy(variant.storage_path)
            removed += 1
    return removed


def _is_whole(variant: CodeVariant) -> bool:
    try:
        content_of(variant)
    except VariantGone:
        return False
    return True
