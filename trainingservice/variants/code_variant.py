"""A variant of the code: whole files that one trial has instead of those of the experiment's code.

It is one JSON text, the same for the same changes, and named by its SHA-256. It is kept in a file, together with what
the changed files were before, which the trial does not need and people do. Keepers get the text in their job, and lay
the files over the trial's own copy of the code.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainingservice.errors import PermanentError
from trialkeeper import contract
from trialkeeper.durable_files import put_in_place


@dataclass(frozen=True)
class ChangedFile:
    """``text``: the whole content; None: the file is removed. ``before``: of the code; None: it has no such file."""

    path: str
    text: str | None
    before: str | None = None
    executable: bool = False
    executable_before: bool = False


@dataclass(frozen=True)
class CodeVariant:
    """What a form says of it: the file, and the hash (hex) of the text in it."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class VariantContent:
    """``text``: what keepers get. ``base``: SHA-256 of the code archive that the files are laid over."""

    text: str
    base: str
    files: tuple[ChangedFile, ...]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def size(self) -> int:
        """Bytes of the changed files."""
        return sum(len(one.text.encode()) for one in self.files if one.text is not None)


def variant_content(base: str, files: Iterable[ChangedFile]) -> VariantContent:
    """The variant that these changes are. Their order does not matter."""
    in_order = tuple(sorted(files, key=lambda one: one.path))
    document = {"base": base, "files": {one.path: None if one.text is None else {
        "text": one.text, "executable": one.executable} for one in in_order}}
    return VariantContent(_json(document), base, in_order)


def stored_form(content: VariantContent) -> bytes:
    """The content of the file that keeps it."""
    before = {one.path: None if one.before is None else {"text": one.before, "executable": one.executable_before}
              for one in content.files}
    return _json({"variant": content.text, "before": before}).encode()


def read_stored(stored: bytes) -> VariantContent:
    """Raises ValueError where it is damaged."""
    try:
        document = json.loads(stored)
        text: str = document["variant"]
        told, before = json.loads(text), document["before"]
        return VariantContent(text, told["base"], tuple(
            _changed(path, now, before[path]) for path, now in told["files"].items()))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it is no variant of code") from error


def _changed(path: str, now: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> ChangedFile:
    return ChangedFile(path, None if now is None else now["text"], None if before is None else before["text"],
                       executable=bool(now and now["executable"]),
                       executable_before=bool(before and before["executable"]))


def write_variant(content: VariantContent, folder: Path) -> CodeVariant:
    """Keep it in a folder, which is made if need be. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content.sha256}.json"
    draft = path.with_suffix(".draft")
    draft.write_bytes(stored_form(content))
    put_in_place(str(draft), str(path))
    return CodeVariant(path, content.sha256)


def variant_document(variant: CodeVariant) -> contract.VariantDocument:
    """What the keeper is told of it. Raises PermanentError where its file is gone or damaged."""
    try:
        content = read_stored(variant.path.read_bytes())
    except (OSError, ValueError) as error:
        raise PermanentError(f"The trial's code variant {variant.sha256} cannot be read ({error}). Submit the trial "
                             "again.") from None
    if content.sha256 != variant.sha256:
        raise PermanentError(f"The trial's code variant {variant.sha256} is damaged: it has another hash. Submit the "
                             "trial again.")
    packed = base64.b64encode(zlib.compress(content.text.encode(), 9)).decode("ascii")
    return {"sha256": variant.sha256, "packed": packed}


def _json(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))
