"""Several small chunks of a checkpoint in one body: one request for each would cost more than the chunk.

A pack is one chunk after the other, each behind the number of its bytes (four of them, the highest first). Who gets
one computes the hashes.
"""

import struct
from typing import Iterable, List, Union

#: A chunk with more bytes is sent and fetched alone.
SMALL_CHUNK = 64 * 1024
#: Chunks in one pack, and bytes of them.
MOST_CHUNKS, MOST_BYTES = 500, 4 * 1024 * 1024
#: Bytes of a whole pack at most.
MOST_PACKED = MOST_BYTES + 4 * MOST_CHUNKS

_LENGTH = struct.Struct(">I")


def pack(contents: Iterable[Union[bytes, bytearray]]) -> bytes:
    """The body that holds these chunks."""
    return b"".join(part for content in contents for part in (_LENGTH.pack(len(content)), content))


def unpack(body: bytes) -> List[bytes]:
    """The chunks of a body. Raises ValueError where it is no pack, or a larger one than there may be."""
    contents: List[bytes] = []
    at = 0
    while at < len(body):
        begin = at + _LENGTH.size
        if begin > len(body):
            raise ValueError("the pack ends within a number")
        [size] = _LENGTH.unpack_from(body, at)
        at = begin + size
        if not 0 < size <= SMALL_CHUNK or at > len(body):
            raise ValueError("a chunk of the pack has %d bytes" % size)
        contents.append(body[begin:at])
        if len(contents) > MOST_CHUNKS:
            raise ValueError("the pack has more than %d chunks" % MOST_CHUNKS)
    return contents
