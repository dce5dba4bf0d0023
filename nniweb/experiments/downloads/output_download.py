"""One file of a trial's output folder, or all of them as one archive, in pieces as the reader takes them."""

import io
import tarfile
from collections.abc import Iterator

from nniweb.experiments.downloads.trial_output_folder import TrialOutputFolder
from trainingservice.errors import TrainingServiceError
from trainingservice.files.output_folder import Found, FoundFile, Piece

#: What stands in an archive beside the files where some are missing in it.
MISSING = "NOT-COMPLETE.txt"


class FileChanged(Exception):
    """The file became another one, or shorter, while it was sent: what was sent is of no use."""


def rest_of_file(folder: TrialOutputFolder, name: str, first: Piece) -> Iterator[bytes]:
    """The file's pieces, as many bytes as it had when its first piece was read. Raises FileChanged, and what
    ``TrialOutputFolder`` does.
    """
    piece, sent = first, 0
    while True:
        content = piece.content[:first.size - sent]
        sent += len(content)
        if content:
            yield content
        if sent >= first.size:
            return
        piece = folder.read(name, sent)
        if piece.number != first.number or not piece.content:
            raise FileChanged(f"{name} was replaced or truncated while it was being sent")


def archive_pieces(folder: TrialOutputFolder, found: Found, top: str) -> Iterator[bytes]:
    """A tar archive of what was found, below a folder ``top``. What cannot be read any more is named in ``MISSING``."""
    missing = ["There are more files. The server lists only a part of them."] if found.cut else []
    for file in found.files:
        yield from _archived(folder, file, top, missing)
    if missing:
        text = ("\n".join(missing) + "\n").encode()
        yield _header(f"{top}/{MISSING}", len(text), 0) + text + _padding(len(text))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _archived(folder: TrialOutputFolder, file: FoundFile, top: str, missing: list[str]) -> Iterator[bytes]:
    sent, size = 0, None
    try:
        first = folder.read(file.name, 0)
        size = first.size
        yield _header(f"{top}/{file.name}", size, file.modified)
        for piece in rest_of_file(folder, file.name, first):
            sent += len(piece)
            yield piece
    except (TrainingServiceError, FileChanged) as error:
        missing.append(f"{file.name}: {error}")
    if size is not None:
        # what the header has promised must come, or all that follows could not be read
        while sent < size:
            zeros = bytes(min(size - sent, io.DEFAULT_BUFFER_SIZE))
            sent += len(zeros)
            yield zeros
        yield _padding(size)


def _header(name: str, size: int, modified: float) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, int(modified), 0o644
    return member.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
