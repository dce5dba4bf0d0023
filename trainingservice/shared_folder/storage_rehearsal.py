"""What a rehearsal says of a storage that server and containers share."""

from __future__ import annotations

from collections.abc import Iterator

from trainingservice.base import RehearsalFinding
from trainingservice.shared_folder.folder import SharedFolder
from trainingservice.words.byte_size import byte_size

#: Bytes of free room below which a trial is refused, and below which a person is warned.
BLOCKS_BELOW = 100 * 1024 * 1024
WARNS_BELOW = 1024 * 1024 * 1024


def rehearse_storage(storage: SharedFolder) -> Iterator[RehearsalFinding]:
    """Whether it is mounted, can be written, and has room."""
    problem = storage.problem()
    if problem:
        yield RehearsalFinding("folder", False, problem)
        return
    yield RehearsalFinding("folder", True, f"Trials keep their files on the storage mounted at {storage.root}.")
    try:
        free = storage.free_bytes()
    except OSError as error:
        yield RehearsalFinding("disk", False, f"The free space of the storage cannot be read ({error.strerror}).",
                               temporary=True)
        return
    if free is None:
        return
    there_is = f"{byte_size(free)} are free on the storage"
    if free < BLOCKS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. A trial needs space for its files and output. Free "
                                              "space.")
    elif free < WARNS_BELOW:
        yield RehearsalFinding("disk", False, f"Only {there_is}. Trials that write large files will fail. Free space "
                                              "soon.",
                               temporary=True)
    else:
        yield RehearsalFinding("disk", True, f"{there_is}.")
