"""Scalars in TensorBoard's event files: a small reader of the two formats that they are made of.

A file is a row of records: length (8 bytes), its checksum (4), data, the data's checksum (4), all little-endian. The
data is a message ``Event`` in the format of protocol buffers. The values of scalars are in the field ``simple_value``,
or, as newer writers have it, in a tensor without dimensions.
"""

import os
import struct
from typing import BinaryIO, Callable, Dict, Iterator, List, Optional, Tuple, Union

from trialkeeper import contract
from trialkeeper.step_groups import Measured

#: A longer record, or one whose length has a wrong checksum, ends the reading of a file: it is damaged.
MOST_RECORD_BYTES = 1024 * 1024 * 1024
#: A longer record holds images or histograms. Its scalars, which no known writer puts there, are not looked for.
MOST_SCALAR_BYTES = 64 * 1024
_HEADER, _FOOTER = 12, 4
_BLOCK = 256 * 1024

Field = Union[int, bytes]

# --- records ------------------------------------------------------------------------------------


def _table() -> List[int]:
    """Of CRC-32C (Castagnoli), by the byte that comes next."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_checksum(data: bytes) -> int:
    """As records have it: CRC-32C, turned and moved, so that a checksum of checksums is no bad one."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


class Damaged(Exception):
    """What follows in the file cannot be read."""


# --- messages -----------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    """The number, and where it ends. Raises Damaged."""
    number = shift = 0
    while shift < 70:
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise Damaged


def _fields(data: bytes) -> Iterator[Tuple[int, Field]]:
    """Numbers of fields and what they hold: whole numbers, or bytes. Raises Damaged."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise Damaged
        if at + size > len(data):
            raise Damaged
        yield key >> 3, data[at:at + size]
        at += size


#: Of a tensor's element types: the format of one, and the fields that hold values which are not in the content.
_FLOAT, _DOUBLE, _INT32, _INT64 = 1, 2, 3, 9
_FORMATS = {_FLOAT: "<f", _DOUBLE: "<d", _INT32: "<i", _INT64: "<q"}
_VALUE_FIELDS = {5: "<f", 6: "<d"}
_WHOLE_FIELDS = (7, 10)


def _number_of_tensor(data: bytes) -> Optional[float]:
    kind, content = 0, b""
    number: Optional[float] = None
    for field, value in _fields(data):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 4 and isinstance(value, bytes):
            content = value
        elif field in _VALUE_FIELDS and isinstance(value, bytes):
            number = _one(_VALUE_FIELDS[field], value)
        elif field in _WHOLE_FIELDS:
            whole, end = (value, 0) if isinstance(value, int) else _varint(value, 0)
            number = float(_signed(whole)) if isinstance(value, int) or end == len(value) else None
    if content and kind in _FORMATS:
        number = _one(_FORMATS[kind], content)
    return number


def _one(form: str, data: bytes) -> Optional[float]:
    """The only number in the data; None where it holds another count of them."""
    return float(struct.unpack(form, data)[0]) if struct.calcsize(form) == len(data) else None


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def scalars_of_event(data: bytes) -> Tuple[int, Dict[str, float]]:
    """The step of an event, and its scalars by their tags. Raises Damaged."""
    step, scalars = 0, {}
    for field, summary in _fields(data):
        if field == 2 and isinstance(summary, int):
            step = _signed(summary)
        elif field == 5 and isinstance(summary, bytes):
            for inner, value in _fields(summary):
                if inner == 1 and isinstance(value, bytes):
                    tag, number = _scalar(value)
                    if number is not None:
                        scalars[tag] = number
    return step, scalars


def _scalar(data: bytes) -> Tuple[str, Optional[float]]:
    tag, number = "", None
    for field, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if field == 1:
            tag = value.decode("utf-8", "replace")
        elif field == 2:
            number = _one("<f", value)
        elif field == 8:
            number = _number_of_tensor(value)
    return tag, number


# --- files --------------------------------------------------------------------------------------


class EventFile:
    """Reads chosen scalars of a file as they come."""

    def __init__(self, opened: Callable[[], BinaryIO], source: str, name: str, tags: List[str], position: int) -> None:
        """``opened``: opens the file, and may raise OSError. ``name``: of the file, with its folders. ``tags``: those
        that are read, alone or behind folders of the file (``validation/loss``). ``position``: how far the file was
        read before.
        """
        self.source, self.has_more = source, False
        self._opened, self._position = opened, position
        self._run = "/" + os.path.dirname(name)
        self._tags = tags
        self._wanted: Dict[str, Optional[str]] = {}  # tag in the file -> the one that was asked for, if any
        self._is_damaged, self._name = False, name

    @property
    def problem(self) -> Optional[contract.MetricProblem]:
        """Why it is not read any more."""
        return {"problem": "damaged_file", "detail": self._name} if self._is_damaged else None

    def read(self, final: bool = False) -> List[Measured]:
        """What came since the last call. What follows damage is not read."""
        self.has_more = False
        if self._is_damaged:
            return []
        measured: List[Measured] = []
        try:
            with self._opened() as stream:
                size = os.fstat(stream.fileno()).st_size
                if size < self._position:  # begun anew
                    self._position = 0
                stream.seek(self._position)
                data = stream.read(_BLOCK)
        except OSError:
            return []
        self.has_more = self._position + len(data) < size
        try:
            at = self._records(data, size - self._position, measured)
        except Damaged:
            self._is_damaged, self.has_more = True, False
            return measured
        self.has_more = self.has_more and at > 0
        self._position += at
        return measured

    def _records(self, data: bytes, left: int, measured: List[Measured]) -> int:
        """Read the whole records in the data, and return how much of it they are. ``left``: bytes from there to the
        file's end. Raises Damaged.
        """
        at = 0
        while at + _HEADER <= len(data):
            length, checksum = struct.unpack_from("<QI", data, at)
            if length > MOST_RECORD_BYTES or masked_checksum(data[at:at + 8]) != checksum:
                raise Damaged
            end = at + _HEADER + length + _FOOTER
            if end > left:
                break  # it is being written
            if length > MOST_SCALAR_BYTES:
                at = end
                if at >= len(data):
                    break
                continue
            if end > len(data):
                break
            self._event(data[at + _HEADER:end - _FOOTER], data[end - _FOOTER:end], measured, end)
            at = end
        return at

    def _event(self, event: bytes, checksum: bytes, measured: List[Measured], end: int) -> None:
        step, scalars = scalars_of_event(event)
        values = {}
        for tag, number in scalars.items():
            if tag not in self._wanted:
                self._wanted[tag] = self._asked_for(tag)
            name = self._wanted[tag]
            if name is not None:
                values[name] = number
        if values:
            if masked_checksum(event) != struct.unpack("<I", checksum)[0]:
                raise Damaged
            measured.append(Measured(values, step, self._position + end))

    def _asked_for(self, tag: str) -> Optional[str]:
        whole = "%s/%s" % (self._run, tag)
        return next((asked for asked in self._tags if len(asked) >= len(tag) and whole.endswith("/" + asked)), None)
