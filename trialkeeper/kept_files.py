"""Files of a trial that the experiment asked to keep: found by patterns, within limits."""

import os
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

#: What one trial may send; the rest stays on its machine, and the keeper's log names it.
MAX_FILES = 100
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024


#: What a pattern begins with that looks into the trial's output folder. The files are kept under names like it.
OUTPUT = "$NNI_OUTPUT_DIR/"


class KeptFile(NamedTuple):
    """``name``: path relative to the working directory (or ``NNI_OUTPUT_DIR/...``), with slashes; ``path``: where it
    is."""

    name: str
    path: str


def find_kept_files(working_directory: str, output_folder: str, patterns: List[str],
                    log: Callable[[str], None]) -> List[KeptFile]:
    """The files that match, sorted by name. ``**`` matches any depth; what leaves its folder is not taken."""
    found: Dict[str, str] = {}
    for pattern in patterns:
        if pattern.startswith(OUTPUT):
            for name, path in _matching(output_folder, pattern[len(OUTPUT):], log):
                found[OUTPUT[1:] + name] = path
        else:
            found.update(_matching(working_directory, pattern, log))
    files: List[KeptFile] = []
    total = 0
    for name, path in sorted(found.items()):
        size = os.path.getsize(path)
        if len(files) >= MAX_FILES or size > MAX_FILE_BYTES or total + size > MAX_TOTAL_BYTES:
            log("the file %s (%d bytes) is not kept: a trial may send %d files of at most %d bytes, %d in all"
                % (path, size, MAX_FILES, MAX_FILE_BYTES, MAX_TOTAL_BYTES))
        else:
            files.append(KeptFile(name, path))
            total += size
    return files


def _matching(folder: str, pattern: str, log: Callable[[str], None]) -> Iterator[Tuple[str, str]]:
    """Names below the folder, and paths, of the files that match."""
    import glob
    root = os.path.realpath(folder)
    for path in glob.iglob(os.path.join(glob.escape(root), pattern), recursive=True):
        real = os.path.realpath(path)
        if os.path.isfile(real):
            name = os.path.relpath(os.path.normpath(path), root)
            if real.startswith(root.rstrip("/") + "/") and name.split("/")[0] != "..":
                yield name, os.path.join(root, name)
            else:
                log("the file %s is not kept: it lies outside of %s" % (path, root))
