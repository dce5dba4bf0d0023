"""Files of a trial that the experiment asked to keep: found by patterns, within limits."""

import os
from typing import BinaryIO, Callable, Dict, Iterator, List, NamedTuple

from trialkeeper.folder_reader import open_plain_file

#: What one trial may send; the rest stays on its machine, and the keeper's log names it.
MAX_FILES = 100
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_TOTAL_BYTES = 256 * 1024 * 1024


#: What a pattern begins with that looks into the trial's output folder. The files are kept under names like it.
OUTPUT = "$NNI_OUTPUT_DIR/"


class KeptFile(NamedTuple):
    """``name``: path relative to the working directory (or ``NNI_OUTPUT_DIR/...``), with slashes; ``folder``: what it
    must not leave, and ``inner``: where it is in there, without links."""

    name: str
    folder: str
    inner: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.inner)

    def open(self) -> BinaryIO:
        """Open it, unless it, or a folder on the way to it, has become a link since it was found. Raises OSError."""
        return open(open_plain_file(self.folder, self.inner), "rb")


def find_kept_files(working_directory: str, output_folder: str, patterns: List[str],
                    log: Callable[[str], None]) -> List[KeptFile]:
    """The files that match, sorted by name. ``**`` matches any depth; what leaves its folder is not taken."""
    found: Dict[str, KeptFile] = {}
    for pattern in patterns:
        if pattern.startswith(OUTPUT):
            matching = _matching(output_folder, pattern[len(OUTPUT):], OUTPUT[1:], log)
        else:
            matching = _matching(working_directory, pattern, "", log)
        found.update((file.name, file) for file in matching)
    files: List[KeptFile] = []
    total = 0
    for _, file in sorted(found.items()):
        size = os.path.getsize(file.path)
        if len(files) >= MAX_FILES or size > MAX_FILE_BYTES or total + size > MAX_TOTAL_BYTES:
            log("the file %s (%d bytes) is not kept: a trial may send %d files of at most %d bytes, %d in all"
                % (file.path, size, MAX_FILES, MAX_FILE_BYTES, MAX_TOTAL_BYTES))
        else:
            files.append(file)
            total += size
    return files


def _matching(folder: str, pattern: str, prefix: str, log: Callable[[str], None]) -> Iterator[KeptFile]:
    """The files below the folder that match; ``prefix`` stands before their names."""
    import glob
    root = os.path.realpath(folder)
    for path in glob.iglob(os.path.join(glob.escape(root), pattern), recursive=True):
        real = os.path.realpath(path)
        if os.path.isfile(real):
            name = os.path.relpath(os.path.normpath(path), root)
            if real.startswith(root.rstrip("/") + "/") and name.split("/")[0] != "..":
                yield KeptFile(prefix + name, root, os.path.relpath(real, root))
            else:
                log("the file %s is not kept: it lies outside of %s" % (path, root))
