"""GPU indices as configuration files write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from trainingservice.words.shown_value import shown
from trialkeeper.whole_number import whole_number


def read_gpu_indices(value: object) -> object:
    """A list of indices, one index, or text such as "0,2": NNI's files have all three."""
    if isinstance(value, bool):
        raise ValueError('expected GPU indices such as [0, 1] or "0,1"')
    if isinstance(value, int):
        value = [value]
    elif isinstance(value, str):
        numbers = [whole_number(piece) for piece in value.split(",")]
        if None in numbers:
            raise ValueError(f'expected GPU indices such as "0,1", not {shown(value)}')
        value = numbers
    if isinstance(value, list | tuple):
        if any(isinstance(index, int) and index < 0 for index in value):
            raise ValueError("a GPU index is 0 or more")
        known = [index for index in value if isinstance(index, int)]
        if len(set(known)) != len(known):
            raise ValueError("a GPU index is named twice")
        if not value:
            raise ValueError("name at least one GPU, or leave the field out to allow all of them")
    return value


#: GPU indices as NNI's files write them.
GpuIndices = Annotated[tuple[int, ...], BeforeValidator(read_gpu_indices)]
