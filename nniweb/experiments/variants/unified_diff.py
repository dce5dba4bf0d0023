"""A unified diff, as git and diff write it, read into what it does to each file. Nothing of it is believed.

The parser is unidiff. What it leaves to its caller is here: names in quotes, links and other modes, binary parts, lines
that a hunk's header does not count, and limits.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from itertools import pairwise

from unidiff.constants import DEV_NULL
from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchedFile, PatchSet

from nniweb.experiments.variants.refused import VariantRefused, of_path
from trainingservice.words.byte_size import byte_size
from trainingservice.words.shown_value import shown

#: Of one patch.
MOST_BYTES, MOST_LINES, MOST_FILES, MOST_HUNKS = 512 * 1024, 50_000, 100, 2000
#: Characters of a line that names two files: unidiff compares it with expressions that a long one would keep busy.
LONGEST_HEADER = 640
FIELD = "patch"

_BINARY = ("GIT binary patch", "Binary file ", "Binary files ")
#: What git puts before names, also where it is told to say what is compared.
_OLD_PREFIX, _NEW_PREFIX = ("a/", "c/", "i/", "o/", "1/"), ("b/", "w/", "i/", "c/", "o/", "2/")
_PLAIN_MODES = {"100644": False, "100755": True}
_SPECIAL_MODES = {"120000": "is a symbolic link", "160000": "is a submodule", "040000": "is a folder"}
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_ESCAPE = re.compile(r'\\([0-3][0-7]{2}|[abfnrtv\\"])|[^\\]', re.DOTALL)


@dataclass(frozen=True)
class PatchHunk:
    """``start``: number of the first line that it replaces, from 1; where it replaces none, of the line before."""

    header: str
    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class FilePatch:
    """What a patch does to one file. ``source``: the path that its text begins with; None: it is a new file.
    ``path``: where the text is then; None: the file is removed. ``executable`` None: as before.
    """

    source: str | None
    path: str | None
    hunks: tuple[PatchHunk, ...]
    executable: bool | None = None
    keeps_source: bool = False

    @property
    def name(self) -> str:
        """To speak of it."""
        return self.path or self.source or ""


def read_patch(text: str) -> list[FilePatch]:
    """Raises VariantRefused with what is wrong, also where it changes no file."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise VariantRefused(FIELD, f"The patch is longer than {byte_size(MOST_BYTES)}. Change less.")
    lines = text.split("\n")
    _check_lines(lines)
    try:
        # the last line of a text that was put together by hand often lacks its end
        parsed = PatchSet(io.StringIO(text if text.endswith("\n") else text + "\n", newline="\n"))
    except UnidiffParseError as error:
        raise VariantRefused(FIELD, f"The patch cannot be read: {' '.join(str(error).split())[:200]}. Give a unified "
                                    "diff, as git diff writes it, or whole files.") from None
    except (ValueError, AssertionError, OverflowError):
        raise VariantRefused(FIELD, "The patch cannot be read: a number in it is no line number.") from None
    if len(parsed) > MOST_FILES:
        raise VariantRefused(FIELD, f"The patch changes more than {MOST_FILES} files. Change fewer.")
    _check_that_all_counts(lines, parsed)
    patches = [_file_patch(one) for one in parsed]
    if not patches:
        raise VariantRefused(FIELD, "The patch changes no file. Give a unified diff, as git diff writes it.")
    return patches


def _check_lines(lines: list[str]) -> None:
    if len(lines) > MOST_LINES:
        raise VariantRefused(FIELD, f"The patch has more than {MOST_LINES} lines. Change less.")
    hunks = 0
    for number, line in enumerate(lines, 1):
        if "\0" in line:
            raise VariantRefused(FIELD, f"Line {number} of the patch has a NUL character: only text can be patched.")
        if line.startswith(_BINARY):
            raise VariantRefused(FIELD, f"Line {number} begins a binary patch: only text can be patched.")
        if line.startswith("diff --git ") and len(line) > LONGEST_HEADER:
            raise VariantRefused(FIELD, f"Line {number} of the patch, {shown(line)}, is longer than {LONGEST_HEADER} "
                                        "characters.")
        hunks += line.startswith("@@ ")
    if hunks > MOST_HUNKS:
        raise VariantRefused(FIELD, f"The patch has more than {MOST_HUNKS} hunks. Change less, or give whole files.")


def _check_that_all_counts(lines: list[str], parsed: PatchSet) -> None:
    """No line that looks like a change may be outside of a hunk: the parser would leave it out."""
    counted = {line.diff_line_no for one in parsed for hunk in one for line in hunk}
    for number, line in enumerate(lines, 1):
        is_change = line.startswith(("+", "-")) and not line.startswith(("+++ ", "--- ")) and line not in ("---", "-- ")
        if is_change and number not in counted:
            raise VariantRefused(FIELD, f"Line {number} of the patch, {shown(line)}, belongs to no hunk: the numbers "
                                        "in the @@ line before it count fewer lines. Correct them, or give whole "
                                        "files.")


def _file_patch(one: PatchedFile) -> FilePatch:
    info = [] if one.patch_info is None else [str(line) for line in one.patch_info]
    source, path = _names(one, is_git=bool(info) and info[0].startswith("diff --git "))
    name = path or source or ""
    if one.is_binary_file:
        raise of_path(FIELD, name, "is binary there: only text can be patched.")
    for mode in filter(None, (one.source_mode, one.target_mode)):
        if mode in _SPECIAL_MODES:
            raise of_path(FIELD, name, f"{_SPECIAL_MODES[mode]} there (mode {mode}). Only plain files can be changed.")
        if mode not in _PLAIN_MODES:
            raise of_path(FIELD, name, f"gets the mode {shown(mode)}. Files can have 100644 or 100755.")
    if source is None and path is None:
        raise VariantRefused(FIELD, "The patch has a file that is /dev/null before and after.")
    executable = _PLAIN_MODES[one.target_mode] if one.target_mode is not None and path is not None else None
    return FilePatch(source, path, tuple(_hunk(hunk) for hunk in one), executable,
                     keeps_source=any(line.startswith("copy from ") for line in info))


def _names(one: PatchedFile, is_git: bool) -> tuple[str | None, str | None]:
    source, path = _unquoted(one.source_file or ""), _unquoted(one.target_file or "")
    pair = ((source, _OLD_PREFIX if is_git else "a/"), (path, _NEW_PREFIX if is_git else "b/"))
    if source[:2] != path[:2] and all(name == DEV_NULL or name.startswith(prefix) for name, prefix in pair):
        source, path = (name if name == DEV_NULL else name[2:] for name in (source, path))
    return None if source == DEV_NULL else source, None if path == DEV_NULL else path


def _unquoted(name: str) -> str:
    """git puts names with unusual characters into quotes, with bytes in octal."""
    name = name.rstrip("\r")
    if not name.startswith('"'):
        return name
    inner = name[1:-1] if len(name) > 1 and name.endswith('"') else ""
    found = b"".join(
        bytes([int(match[1], 8)]) if match[1] and match[1].isascii() and match[1].isdigit()
        else _SIMPLE_ESCAPES[match[1]].encode() if match[1] else match[0].encode("utf-8", "surrogatepass")
        for match in _ESCAPE.finditer(inner))
    try:
        return found.decode()
    except UnicodeDecodeError:
        raise VariantRefused(FIELD, f"The name {shown(name)} in the patch is no UTF-8.") from None


def _hunk(hunk: Hunk) -> PatchHunk:
    header = f"@@ -{hunk.source_start},{hunk.source_length} +{hunk.target_start},{hunk.target_length} @@"
    lines = [line for line in hunk if line.line_type in (" ", "+", "-", "\\")]
    ended = [(line.line_type, line.value.removesuffix("\n") if after is not None and after.line_type == "\\"
              else line.value) for line, after in pairwise([*lines, None]) if line is not None]
    return PatchHunk(header, hunk.source_start,
                     tuple(value for kind, value in ended if kind in (" ", "-")),
                     tuple(value for kind, value in ended if kind in (" ", "+")))
