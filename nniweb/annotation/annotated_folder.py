"""A code folder with annotations: its search space, and its archive with the annotations carried out."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from nniweb.annotation.reading_process import AnnotationsInvalid, FileProblem, RewrittenFiles, rewrite_files
from trainingservice.code.code_archive import CodeArchive, CodeEntry, CodeRefused, code_tree, pack_entries
from trainingservice.files.unlinked_paths import open_file

#: What a file that has annotations holds; others are not parsed, whatever they are.
_ANNOTATION = re.compile(rb"@nni\.|\bnni[\s\\]*\.[\s\\]*(?:choice|function_choice|mutable_layer|randint|q?(?:log)?"
                         rb"(?:uniform|normal))\b")
#: Bytes of one Python file with annotations, and of all of them.
LARGEST_FILE = 2**20
MOST_BYTES = 16 * 2**20
_PIECE = 2**20
#: Between two pieces; an annotation's beginning is shorter.
_OVERLAP = 100


def read_annotations(folder: Path, parts: Mapping[str, Path] = {}) -> RewrittenFiles:
    """The search space of a code folder and its rewritten files. Arguments: as ``code_tree``; nothing in the folders is
    changed. Blocking. Raises AnnotationsInvalid, also where there are no annotations; CodeRefused where the folder
    cannot be packed.
    """
    return _read(code_tree(folder, parts))


def pack_annotated(folder: Path, target_folder: Path, parts: Mapping[str, Path] = {}
                   ) -> tuple[CodeArchive, RewrittenFiles]:
    """``pack_tree`` with the annotations carried out, and what was read from them. Raises as ``read_annotations``."""
    entries = code_tree(folder, parts)
    found = _read(entries)
    target_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target_folder.resolve()) as name:
        scratch = Path(name)
        for number, entry in enumerate(entries):
            if not entry.is_folder and (source := found.sources.get(entry.name)) is not None:
                draft = scratch / f"{number}.py"
                draft.write_bytes(source)
                entries[number] = replace(entry, source=draft, size=len(source))
        return pack_entries(entries, target_folder), found


def _read(entries: Iterable[CodeEntry]) -> RewrittenFiles:
    files: dict[str, bytes] = {}
    problems: list[FileProblem] = []
    total = 0
    for entry in entries:
        if entry.is_folder or entry.link is not None or not entry.name.endswith(".py"):
            continue
        source = _source_with_annotations(entry)
        if source is None:
            continue
        total += len(source)
        if len(source) > LARGEST_FILE:
            problems.append(FileProblem(entry.name, 0, f"has annotations and more than {LARGEST_FILE // 2**20} MB. "
                                                       "Move code without annotations into another file."))
        elif total <= MOST_BYTES:
            files[entry.name] = source
    if total > MOST_BYTES:
        problems.append(FileProblem("", 0, f"the files with annotations have more than {MOST_BYTES // 2**20} MB in "
                                           "total. Exclude files that the trials do not need with .nniignore."))
    if problems:
        raise AnnotationsInvalid(problems)
    found = rewrite_files(files) if files else None
    if found is None or not found.search_space:
        raise AnnotationsInvalid([FileProblem("", 0, (
            "no Python file of the code has an annotation that gives a parameter. Write one before an assignment, such "
            'as """@nni.variable(nni.choice(16, 32), name=batch_size)""", or set useAnnotation: false and give a '
            "search space."))])
    return found


def _source_with_annotations(entry: CodeEntry) -> bytes | None:
    """The file's content, or its beginning where it is too large; None where it has no annotations."""
    content = b""
    tail = b""
    has_annotations = False
    try:
        with open(open_file(entry.source), "rb") as file:
            while piece := file.read(_PIECE):
                has_annotations = has_annotations or _ANNOTATION.search(tail + piece) is not None
                tail = piece[-_OVERLAP:]
                if len(content) <= LARGEST_FILE:
                    content += piece
    except OSError as error:
        raise CodeRefused(f"{entry.source} cannot be read: {error.strerror or error}.") from error
    return content if has_annotations else None
