"""Files of a trial that the experiment asked to keep: found by patterns, within limits."""

import os
from typing import Callable, List, NamedTuple, Set

#: What one trial may send; the rest stays on its machine, and the keeper's log names it.
MAX_FILES = 100
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024


class KeptFile(NamedTuple):
    """``name``: path relative to the working directory, with slashes; ``path``: where it is."""

    name: str
    path: str


def find_kept_files(working_directory: str, patterns: List[str], log: Callable[[str], None]) -> List[KeptFile]:
    """The files that match, sorted by name. ``**`` matches any depth; what leaves the folder is not taken."""
    if not patterns:
        return []
    import glob
    root = os.path.realpath(working_directory)
    names: Set[str] = set()
    for pattern in patterns:
        for path in glob.iglob(os.path.join(glob.escape(root), pattern), recursive=True):
            real = os.path.realpath(path)
            if os.path.isfile(real):
                if real.startswith(root.rstrip("/") + "/"):
                    names.add(os.path.relpath(os.path.normpath(path), root))
                else:
                    log("the file %s is not kept: it lies outside of %s" % (path, root))
    files: List[KeptFile] = []
    total = 0
    for name in sorted(names):
        path = os.path.join(root, name)
        size = os.path.getsize(path)
        if name.split("/")[0] == "..":
            log("the file %s is not kept: it lies outside of %s" % (path, root))
        elif len(files) >= MAX_FILES or size > MAX_FILE_BYTES or total + size > MAX_TOTAL_BYTES:
            log("the file %s (%d bytes) is not kept: a trial may send %d files of at most %d bytes, %d in all"
                % (path, size, MAX_FILES, MAX_FILE_BYTES, MAX_TOTAL_BYTES))
        else:
            files.append(KeptFile(name, path))
            total += size
    return files
