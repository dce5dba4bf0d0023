"""Points of a search space as rows of a table, for algorithms that compute with many points at once."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nniweb.tuning.search_space.space import (
    Coordinates,
    NestedChoice,
    Numeric,
    Parameter,
    Parameters,
    Path,
    RandInt,
    SearchSpace,
)

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Column:
    path: Path
    parameter: Parameter
    #: Column of the nested choice that this parameter is inside of, and the option; None at the top.
    parent: tuple[int, int] | None

    @property
    def size(self) -> int:
        """How many values there are; 0 for a real parameter."""
        return 0 if isinstance(self.parameter, Numeric) else getattr(self.parameter, "size", 0)


class CoordinateTable:
    """A row has one coordinate (see search_space.py) for each parameter, also for those inside options that are not
    chosen: they count for nothing, but keep the rows equally long.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._columns: list[_Column] = []
        self._visit(space, (), None)
        self._place = {column.path: index for index, column in enumerate(self._columns)}

    @property
    def feature_count(self) -> int:
        """Columns of ``features``: one for each number, and for each option of a choice."""
        return sum(1 if column.size == 0 or isinstance(column.parameter, RandInt) else column.size
                   for column in self._columns)

    def rows(self, points: Iterable[Coordinates]) -> Table:
        """One row a point; what a point lacks is in the middle."""
        listed = list(points)
        table = np.empty((len(listed), len(self._columns)))
        for index, column in enumerate(self._columns):
            middle = 0.5 if column.size == 0 else column.size // 2
            table[:, index] = [point.get(column.path, middle) for point in listed]
        return table

    def random(self, count: int, rng: np.random.Generator) -> Table:
        """Rows by the parameters' own distributions."""
        table = rng.random((count, len(self._columns)))
        for index, column in enumerate(self._columns):
            if column.size:
                table[:, index] = np.floor(table[:, index] * column.size)
        return table

    def near(self, row: Table, count: int, rng: np.random.Generator) -> Table:
        """Rows around one: in each some parameters differ, by steps from very small ones to a quarter of the range."""
        width = len(self._columns)
        if width == 0:
            return np.empty((count, 0))
        table = np.tile(row, (count, 1))
        changed = rng.random((count, width)) < min(1.0, 2.0 / width)
        changed[np.arange(count), rng.integers(width, size=count)] = True
        reach = 10.0 ** rng.uniform(-3.0, -0.6, (count, 1))
        steps = rng.normal(size=(count, width)) * reach
        fresh = self.random(count, rng)
        for index, column in enumerate(self._columns):
            if column.size == 0:
                moved = np.clip(table[:, index] + steps[:, index], 0.0, 1.0)
            elif isinstance(column.parameter, RandInt):
                far = np.rint(steps[:, index] * column.size)
                moved = np.clip(table[:, index] + np.where(far == 0, np.sign(steps[:, index]), far), 0, column.size - 1)
            else:
                moved = fresh[:, index]
            table[:, index] = np.where(changed[:, index], moved, table[:, index])
        return table

    def features(self, table: Table) -> Table:
        """What a regression sees, all between 0 and 1: real and whole numbers by their place in the range, a choice as
        one column an option, parameters of options that are not chosen in the middle.
        """
        parts: list[Table] = []
        active: list[npt.NDArray[np.bool_]] = []
        for index, column in enumerate(self._columns):
            is_active = np.ones(len(table), dtype=bool)
            if column.parent is not None:
                parent, option = column.parent
                is_active = active[parent] & (table[:, parent] == option)
            active.append(is_active)
            values = table[:, index]
            if column.size == 0:
                parts.append(np.where(is_active, values, 0.5)[:, None])
            elif isinstance(column.parameter, RandInt):
                parts.append(np.where(is_active, (values + 0.5) / column.size, 0.5)[:, None])
            else:
                chosen = values[:, None] == np.arange(column.size)[None, :]
                parts.append((chosen & is_active[:, None]).astype(np.float64))
        return np.hstack(parts) if parts else np.zeros((len(table), 1))

    def parameters(self, row: Table) -> Parameters:
        """What a trial receives for this row."""

        def pick(path: Path, parameter: Parameter) -> float | int:
            value = float(row[self._place[path]])
            # the last place of more than 2**53 is no float: the next one is that of the bound, which is never sampled
            return value if isinstance(parameter, Numeric) else min(int(value), parameter.size - 1)

        return self._space.build(pick)

    def _visit(self, space: SearchSpace, prefix: Path, parent: tuple[int, int] | None) -> None:
        for name, parameter in space.parameters.items():
            path = (*prefix, name)
            place = len(self._columns)
            self._columns.append(_Column(path, parameter, parent))
            if isinstance(parameter, NestedChoice):
                for index, option in enumerate(parameter.options):
                    self._visit(option.space, (*path, str(index)), (place, index))
