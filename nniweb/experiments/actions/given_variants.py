"""Variants that come with proposals, new trials and reruns: whether the experiment permits them, and what they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.utils import timezone

from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import code_archives
from nniweb.experiments.models import CodeVariant, Experiment, Trial
from nniweb.experiments.variants.base_code import BaseCode, CodeUnreadable
from nniweb.experiments.variants.changes import GivenVariant, ReadVariant, changed_files, read_variant
from nniweb.experiments.variants.permission import permission_of
from nniweb.experiments.variants.refused import VariantRefused
from nniweb.experiments.variants.stored_variants import keep_variant
from trainingservice.reasons import Reason
from trainingservice.variants.code_variant import VariantContent, stored_form

#: Different variants in one request.
MOST_AT_ONCE = 100
#: Bytes of the different variants that trials of one experiment hold before they begin: no budget and no limit of
#: trials counts these yet.
MOST_WAITING_BYTES = 64 * 1024 * 1024


def kept_variant(experiment: Experiment, document: Mapping[str, Any] | None) -> CodeVariant | None:
    """``kept_variants`` for one, with the field ``variant``."""
    return kept_variants(experiment, {"variant": document} if document is not None else {}).get("variant")


def kept_variants(experiment: Experiment, documents: Mapping[str, Mapping[str, Any]]) -> dict[str, CodeVariant]:
    """Check variants as they came ({"patch"} or {"files"}, by the field that has each), and store them.

    Not inside a transaction: the code archive is read, once for all of them. Raises Refused with every field that is
    wrong; then none was stored.
    """
    if not documents:
        return {}
    permission = permission_of(experiment)
    first = next(iter(documents))
    if permission is None:
        raise Refused(Reason("no_variants", why="not_permitted"), first)
    archive = experiment.code
    if archive is None:
        raise Refused(Reason("no_variants", why="not_fetched" if experiment.waits_for_code else "removed"), first)
    # an agent tries one change with many parameters
    given: dict[GivenVariant, list[str]] = {}
    for field, document in documents.items():
        given.setdefault(_given(document), []).append(field)
    if len(given) > MOST_AT_ONCE:
        raise Refused(f"At most {MOST_AT_ONCE} different variants fit into one request.", first)
    wrong: list[tuple[str, str]] = []
    read: dict[GivenVariant, ReadVariant] = {}
    for one, fields in given.items():
        try:
            read[one] = read_variant(one, permission)
        except VariantRefused as refused:
            wrong += _at(fields, refused)
    wanted = {path for one in read.values() for path in one.paths}
    contents: dict[GivenVariant, VariantContent] = {}
    if read:
        try:
            base = BaseCode.read(code_archives.local_path(archive), archive.sha256, wanted)
        except CodeUnreadable as error:
            raise Refused(str(error), first) from None
        for one, what in read.items():
            try:
                contents[one] = changed_files(what, base, permission)
            except VariantRefused as refused:
                wrong += _at(given[one], refused)
    if wrong:
        raise Refused.for_fields(wrong)
    _must_have_room(experiment, contents.values())
    now = timezone.now()
    return {field: variant for one, fields in given.items() for variant in [keep_variant(contents[one], now)]
            for field in fields}


def _must_have_room(experiment: Experiment, contents: Iterable[VariantContent]) -> None:
    """Raises Refused where waiting trials would hold too many bytes of variants with these."""
    waiting = Trial.objects.unfinished().without_attempt().filter(experiment=experiment, variant__isnull=False)
    held = dict(waiting.values_list("variant__sha256", "variant__size").distinct().order_by())
    new = {one.sha256: len(stored_form(one)) for one in contents if one.sha256 not in held}
    if new and sum(held.values()) + sum(new.values()) > MOST_WAITING_BYTES:
        raise Refused(Reason("too_many_variants", held=sum(held.values()), most=MOST_WAITING_BYTES))


def _given(document: Mapping[str, Any]) -> GivenVariant:
    files = document.get("files")
    return GivenVariant(document.get("patch"), None if files is None else tuple(sorted(files.items())))


def _at(fields: list[str], refused: VariantRefused) -> list[tuple[str, str]]:
    return [(f"{field}.{refused.field}", str(refused)) for field in fields]
