"""From what somebody gives, a patch or whole files, to the changed files of a variant; checked against the code."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nniweb.experiments.variants.base_code import BaseCode, check_way, folded
from nniweb.experiments.variants.paths import PermittedPaths, path_problem
from nniweb.experiments.variants.refused import VariantRefused, of_path
from nniweb.experiments.variants.unified_diff import FIELD, MOST_FILES, FilePatch, PatchHunk, read_patch
from trainingservice.variants.code_variant import ChangedFile, VariantContent, variant_content
from trainingservice.words.byte_size import byte_size
from trainingservice.words.shown_value import shown

FILES = "files"
#: Bytes that the changed and removed files may have in the code: they are kept with the variant, to be shown.
MOST_BEFORE = 1024 * 1024


@dataclass(frozen=True)
class Permission:
    """What an experiment permits: which paths, and how many bytes all changed files of a variant may have."""

    paths: PermittedPaths
    most_bytes: int


@dataclass(frozen=True)
class GivenVariant:
    """Exactly one of ``patch`` (a unified diff) and ``files`` (pairs of path and new text, None: it is removed)."""

    patch: str | None = None
    files: tuple[tuple[str, str | None], ...] | None = None


@dataclass(frozen=True)
class ReadVariant:
    """One that was read and whose paths may be changed; not compared with the code yet."""

    patches: Sequence[FilePatch] = ()
    files: Mapping[str, str | None] | None = None

    @property
    def paths(self) -> set[str]:
        """All files of the code that matter for it."""
        if self.files is not None:
            return set(self.files)
        return {path for one in self.patches for path in (one.source, one.path) if path is not None}


def read_variant(given: GivenVariant, permission: Permission) -> ReadVariant:
    """Raises VariantRefused."""
    if given.files is not None:
        if not given.files:
            raise VariantRefused(FILES, "Give at least one file.")
        if len(given.files) > MOST_FILES:
            raise VariantRefused(FILES, f"At most {MOST_FILES} files can be changed.")
        for named, text in given.files:
            _check_path(named, FILES, permission)
            _check_text(named, text, FILES)
        return ReadVariant(files=dict(given.files))
    patches = read_patch(given.patch or "")
    for one in patches:
        for path in (one.source, one.path):
            if path is not None:
                _check_path(path, FIELD, permission)
    return ReadVariant(patches)


def changed_files(read: ReadVariant, base: BaseCode, permission: Permission) -> VariantContent:
    """The variant. Raises VariantRefused where it does not fit the code, is too large, or changes nothing."""
    field = FIELD if read.files is None else FILES
    changes = _patched(read.patches, base) if read.files is None else [
        _replaced(path, text, base) for path, text in read.files.items()]
    real = [one for one in changes if (one.text, one.executable) != (one.before, one.executable_before)]
    if not real:
        raise VariantRefused(field, "The variant changes nothing: the code is so already.")
    if len(real) > MOST_FILES:
        raise VariantRefused(field, f"At most {MOST_FILES} files can be changed.")
    content = variant_content(base.sha256, real)
    if content.size > permission.most_bytes:
        raise VariantRefused(field, f"The changed files have {byte_size(content.size)} together. codeVariants.maxBytes "
                                    f"of this experiment permits {byte_size(permission.most_bytes)}.")
    before = sum(len(one.before.encode()) for one in real if one.before is not None)
    if before > MOST_BEFORE:
        raise VariantRefused(field, f"The files that are changed or removed have {byte_size(before)} together in the "
                                    f"code; at most {byte_size(MOST_BEFORE)} can be. Change fewer.")
    _check_collisions(real, base, field)
    return content


# --- one file ------------------------------------------------------------------------------


def _check_path(path: str, field: str, permission: Permission) -> None:
    if problem := path_problem(path):
        raise of_path(field, path, problem)
    if not permission.paths.permit(path):
        raise of_path(field, path, f"may not be changed: codeVariants.paths of this experiment permits "
                                   f"{permission.paths.shown}.")


def _check_text(path: str, text: str | None, field: str) -> None:
    if text is None:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise of_path(field, path, "would have half a character: only UTF-8 can be written.") from None
    odd = next((one for one in text if one < " " and one not in "\t\n\r\f" or one == "\x7f"), None)
    if odd is not None:
        raise of_path(field, path, f"would have the character {ord(odd):#04x}: only text can be written.")


def _replaced(path: str, text: str | None, base: BaseCode) -> ChangedFile:
    if text is None or base.kind(path):
        before, executable = base.text(path, FILES)
        return ChangedFile(path, text, before, executable and text is not None, executable)
    check_way(base, path, FILES)
    return ChangedFile(path, text)


def _patched(patches: Sequence[FilePatch], base: BaseCode) -> list[ChangedFile]:
    changes: dict[str, ChangedFile] = {}
    for one in patches:
        moves = one.source is not None and one.path is not None and one.source != one.path
        taken = {path for path in (one.path, None if one.keeps_source else one.source) if path is not None}
        if twice := sorted(taken & changes.keys()):
            raise of_path(FIELD, twice[0], "is in the patch twice.")
        if (one.source is None or moves) and one.path is not None:
            if base.kind(one.path):
                raise of_path(FIELD, one.path, "exists in the code already, and the patch makes it as a new file.")
            check_way(base, one.path, FIELD)
        before, was_executable = ("", False) if one.source is None else base.text(one.source, FIELD)
        text = _with_hunks(one, before)
        if one.path is None:
            if text:
                raise of_path(FIELD, one.name, "has more lines in the code than the patch removes with it.")
        else:
            _check_text(one.path, text, FIELD)
            executable = was_executable if one.executable is None else one.executable
            is_new = one.source is None or moves
            changes[one.path] = ChangedFile(one.path, text, None if is_new else before, executable,
                                            not is_new and was_executable)
        if one.source is not None and (one.path is None or moves and not one.keeps_source):
            changes[one.source] = ChangedFile(one.source, None, before, False, was_executable)
    return list(changes.values())


# --- hunks ---------------------------------------------------------------------------------


def _with_hunks(one: FilePatch, before: str) -> str:
    """The text after the patch. A hunk counts where its header says, or at the only place that has its lines."""
    if one.path is None and not one.hunks:
        return ""  # git leaves the lines out when it is told to
    lines = _lines(before)
    result: list[str] = []
    place = shift = 0
    for number, hunk in enumerate(one.hunks, 1):
        said = hunk.start - (1 if hunk.old else 0) + shift
        found = _place_of(hunk, lines, place, said)
        if found is None:
            raise of_path(FIELD, one.name, f"is not as hunk {number} ({hunk.header}) expects: "
                                           f"{_difference(hunk, lines, place, said)}")
        shift += found - said
        result += lines[place:found]
        result += hunk.new
        place = found + len(hunk.old)
    result += lines[place:]
    unended = next((line for line in result[:-1] if not line.endswith("\n")), None)
    if unended is not None:
        raise of_path(FIELD, one.name, f'would go on behind the line {shown(unended)}, which the patch gives "No '
                                       'newline at end of file".')
    return "".join(result)


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _place_of(hunk: PatchHunk, lines: list[str], least: int, said: int) -> int | None:
    """Index of the first line that the hunk replaces, at least ``least``."""
    old = list(hunk.old)
    if least <= said <= len(lines) and lines[said:said + len(old)] == old:
        return said
    if not old:
        return None
    places = _places(lines[least:], old)
    return least + places[0] if len(places) == 1 else None


def _places(lines: list[str], old: list[str]) -> list[int]:
    """Where these lines stand one after the other; at most two places."""
    text, wanted = "\n" + "".join(lines), "\n" + "".join(old)
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(found) < 2:
        if wanted.endswith("\n") or at + len(wanted) == len(text):
            found.append(text.count("\n", 0, at))
        at = text.find(wanted, at + 1)
    return found


def _difference(hunk: PatchHunk, lines: list[str], least: int, said: int) -> str:
    if hunk.old and len(_places(lines[least:], list(hunk.old))) > 1:
        return (f"line {said + 1} is another one, and several places have its lines. Correct the line numbers, or give "
                "more lines around the change.")
    if not least <= said <= len(lines):
        return f"line {said + 1} is not in the file, which has {len(lines)} lines, or belongs to an earlier hunk."
    for offset, expected in enumerate(hunk.old):
        there = lines[said + offset] if said + offset < len(lines) else None
        if there != expected:
            is_there = "the file ends before it" if there is None else f"it is {shown(there)}"
            return f"line {said + offset + 1} should be {shown(expected)}, and {is_there}."
    return "its lines do not stand there."


# --- together ------------------------------------------------------------------------------


def _check_collisions(changes: Sequence[ChangedFile], base: BaseCode, field: str) -> None:
    """No new path may be, on any file system, another one of the code or of the variant."""
    seen: dict[str, str] = {}
    new = [one.path for one in changes if one.before is None]
    files = set(new)
    for path in new:
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            above = "/".join(parts[:depth])
            if depth < len(parts) and above in files:
                raise of_path(field, path, f"leads through {above}, which the variant makes as a file.")
            other = base.alike(above) or seen.setdefault(folded(above), above)
            if other != above:
                is_case = unicodedata.normalize("NFC", other) != unicodedata.normalize("NFC", above)
                only = "in upper and lower case only" if is_case else (
                    "only in how its letters are written in Unicode (composed or with separate accents)")
                raise of_path(field, path, f"differs from {other} {only}, which not every machine keeps apart.")
