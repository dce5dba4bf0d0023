"""NNI's memory sizes: a number is megabytes, text has a unit (``4gb``, ``512 mb``); rounded up to whole megabytes.

Kubernetes' own spellings (``4Gi``, ``512M``) are understood, too; as with NNI all units are powers of 1024.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator

from trialkeeper.whole_number import whole_number

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([tgmk])(?:b|i|ib)?|b)", re.IGNORECASE | re.ASCII)
#: Megabytes of an exbibyte: what is booked is bytes, in columns of 64 bits.
MOST = 2 ** 40
_BYTES = {"t": 1024 ** 4, "g": 1024 ** 3, "m": 1024 ** 2, "k": 1024, "": 1}


def parse_megabytes(value: object) -> object:
    """Whole megabytes of a text with a unit; everything else as it is. Raises ValueError, also for more than MOST."""
    megabytes = value if not isinstance(value, str) else _megabytes_of(value)
    if isinstance(megabytes, (int, float)) and megabytes > MOST:
        raise ValueError("is more than any machine has")
    return megabytes


def _megabytes_of(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        if (number := whole_number(text)) is not None:
            return number
        raise ValueError('must be a number of megabytes, or a size with a unit such as "4gb" or "512mb"')
    megabytes = float(found[1]) * _BYTES[(found[2] or "").lower()] / 1024 ** 2
    return math.ceil(megabytes) if megabytes <= MOST else MOST + 1


#: Whole megabytes in code, any of NNI's spellings in files.
Megabytes = Annotated[int, BeforeValidator(parse_megabytes, json_schema_input_type=int | str)]
