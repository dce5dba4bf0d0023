"""Files of a trial that the experiment asked to keep: found by patterns, within limits."""

import os
from typing import BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Set, Tuple

from trialkeeper.folder_reader import open_plain_file
from trialkeeper.wildcards import shell_wildcards

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
    """The files that match, sorted by name. ``**`` matches any depth; what leaves its folder is not taken.

    A file that is reached by links as well is taken under its own name where that matches.
    """
    found: Dict[str, KeptFile] = {}
    for pattern in patterns:
        if pattern.startswith(OUTPUT):
            matching = matching_files(output_folder, pattern[len(OUTPUT):], OUTPUT[1:], log)
        else:
            matching = matching_files(working_directory, pattern, "", log)
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


def matching_files(folder: str, pattern: str, prefix: str, log: Callable[[str], None]) -> Iterator[KeptFile]:
    """The files below the folder that match; ``prefix`` stands before their names."""
    root = os.path.realpath(folder)
    for path in _Walk(root, pattern, log).files():
        real = os.path.realpath(path)
        if os.path.isfile(real):
            name = os.path.relpath(os.path.normpath(path), root)
            if _is_below(root, real) and name.split("/")[0] != "..":
                yield KeptFile(prefix + name, root, os.path.relpath(real, root))
            else:
                log("the file %s is not kept: it lies outside of %s" % (path, root))


def _is_below(root: str, real: str) -> bool:
    return real == root or real.startswith(root.rstrip("/") + "/")


class _Walk:
    """Looks for a pattern's parts, one folder after the other, by the rules of the standard library's glob: names that
    begin with a dot are met by parts that do.

    The library looks into a folder as often as the pattern can be laid along its path, and links make more paths than
    there are folders. Here a folder is looked into once for each part of the pattern at most.
    """

    def __init__(self, root: str, pattern: str, log: Callable[[str], None]) -> None:
        self._root = root
        self._log = log
        #: A last part that is empty asks for folders, which are not kept.
        self._parts = [] if pattern.endswith("/") else [part for part in pattern.split("/") if part]
        if pattern.startswith("/"):
            self._parts.insert(0, "/")
        self._wildcards = {part: shell_wildcards(part) for part in self._parts if any(sign in part for sign in "*?[")}
        #: Folder (device and number) -> the parts that were looked for in it.
        self._looked_for: Dict[Tuple[int, int], Set[int]] = {}

    def files(self) -> Iterator[str]:
        """Paths of what matches. It may be a folder, a link, or lie outside."""
        folders = [(self._root, self._with_skipped({0}))]
        links: List[Tuple[str, Set[int]]] = []
        while folders or links:  # the folder itself before a link to it: its files are found under their own name
            folder, places = (folders or links).pop()
            for path, reached in self._look_into(folder, places - {len(self._parts)}):
                if len(self._parts) in reached:
                    yield path
                if not os.path.isdir(path):
                    continue
                if not os.path.islink(path) and os.path.basename(path) not in ("", ".."):
                    folders.append((path, reached))
                elif _is_below(self._root, os.path.realpath(path)):
                    links.append((path, reached))
                elif reached - {len(self._parts)}:
                    self._log("the folder %s is not looked into: it lies outside of %s" % (path, self._root))

    def _look_into(self, folder: str, places: Set[int]) -> Iterator[Tuple[str, Set[int]]]:
        """What is in a folder, and which parts come next behind it. ``places``: the parts that may come now."""
        try:
            status = os.stat(folder)
            places = places - self._looked_for.setdefault((status.st_dev, status.st_ino), set())
            self._looked_for[status.st_dev, status.st_ino] |= places
            plain = {self._parts[place] for place in places} - set(self._wildcards)
            names = set() if all(self._parts[place] in plain for place in places) else set(os.listdir(folder))
        except OSError:  # removed meanwhile, or it cannot be read
            return
        for name in sorted(names | {part for part in plain if os.path.lexists(os.path.join(folder, part))}):
            reached = self._with_skipped({place + (self._parts[place] != "**") for place in places
                                          if self._meets(self._parts[place], name)})
            if reached:
                yield os.path.join(folder, name), reached

    def _meets(self, part: str, name: str) -> bool:
        if part not in self._wildcards:
            return name == part
        if name.startswith(".") and not part.startswith("."):
            return False
        return part == "**" or self._wildcards[part].matches(name)

    def _with_skipped(self, places: Set[int]) -> Set[int]:
        """``**`` may stand for no folder at all."""
        found = set()
        for place in places:
            found.add(place)
            while place < len(self._parts) and self._parts[place] == "**":
                place += 1
                found.add(place)
        return found
