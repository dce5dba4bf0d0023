"""Charts that need no script: what is drawn where, in an SVG's units.

templates/dashboard/report/chart.svg draws it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

WIDTH, HEIGHT = 720.0, 280.0
#: Around what is drawn: left, right, top, bottom.
LEFT, RIGHT, TOP, BOTTOM = 64.0, 12.0, 10.0, 34.0
#: At most about so many numbers on an axis.
_TICKS = 6
#: Where a few values are so many times farther away than most are from each other, they are drawn on the edge.
_FAR = 10.0
_FEWEST_TO_CUT = 20
#: A smaller difference between two numbers is none.
_LEAST = 1e-290
#: Sums of such are still numbers.
_LARGEST = 1e300


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Axis:
    """Of numbers from ``low`` to ``high``, which are drawn from ``begin`` to ``end``."""

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool = False

    #: A template reads ``ticks``.
    do_not_call_in_templates: ClassVar[bool] = True

    def __call__(self, value: float) -> float:
        """Where this is. What is beyond the axis is on its edge."""
        low, high, number = (self._place(each) for each in (self.low, self.high, min(max(value, self.low), self.high)))
        return round(self.begin + (number - low) / (high - low) * (self.end - self.begin), 1)

    def _place(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    @property
    def ticks(self) -> list[Tick]:
        values = self._values()
        step = values[1] - values[0] if len(values) > 1 and not self.logarithmic else 0.0
        # of numbers with more than fifteen figures in common one has the text
        return list({text: Tick(self(value), text) for value in values for text in [_number(value, step)]}.values())

    def _values(self) -> list[float]:
        if self.logarithmic:
            powers = range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            if len(powers) >= 2:
                every = math.ceil(len(powers) / _TICKS)
                return [10.0 ** power for power in powers if power % every == 0]
        step = _step(self.high - self.low)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [count * step + 0.0 for count in range(first, last + 1) if self.low <= count * step <= self.high]


def axis_of(values: Iterable[float], begin: float, end: float, *, logarithmic: bool = False, cut: bool = False) -> Axis:
    """An axis for these finite numbers. ``cut``: it may leave out the few that are far from all others."""
    found = sorted(values) or [0.0]
    low, high = found[0], found[-1]
    if cut and len(found) >= _FEWEST_TO_CUT:
        first, third = found[len(found) // 4], found[3 * len(found) // 4]
        reach = _FAR * (third - first)
        if reach > 0:
            low, high = max(low, first - reach), min(high, third + reach)
    low, high = (min(max(end, -_LARGEST), _LARGEST) for end in (low, high))
    if not high - low > _LEAST:
        room = abs(low) / 10 or 1.0
        return Axis(low - room, high + room, begin, end)
    if logarithmic and low > 0:
        return Axis(low, high, begin, end, logarithmic=True)
    room = (high - low) / 25
    return Axis(low - room, high + room, begin, end)


def _step(width: float) -> float:
    power = 10.0 ** math.floor(math.log10(width / _TICKS))
    return next(step for step in (power, 2 * power, 5 * power, 10 * power, 20 * power) if width <= _TICKS * step)


def _number(value: float, step: float) -> str:
    """So short that it differs from those that are ``step`` away."""
    figures = math.ceil(math.log10(abs(value) / step)) + 1 if step > 0 and abs(value) > step else 1
    return f"{value:.{min(max(figures, 4), 15)}g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


@dataclass(frozen=True)
class Layer:
    """Marks of one kind. ``kind``: a class of the style sheet. ``path``: as an SVG path has it."""

    kind: str
    path: str


@dataclass
class Chart:
    """``label`` says to people who do not see it what it shows. ``beyond``: values that are drawn on its edge."""

    label: str
    across: Axis
    up: Axis
    across_title: str
    up_title: str
    layers: list[Layer] = field(default_factory=list)
    #: Under the horizontal axis instead of numbers.
    names: list[Tick] = field(default_factory=list)
    beyond: int = 0
    width: float = WIDTH
    height: float = HEIGHT

    def dots(self, kind: str, points: Iterable[tuple[float, float]]) -> None:
        """A dot for each."""
        path = "".join(f"M{self.across(x):g} {self.up(y):g}h0" for x, y in points)
        if path:
            self.layers.append(Layer(kind, path))

    def line(self, kind: str, points: Sequence[tuple[float, float]], *, steps: bool = False) -> None:
        """One line through all of them; with ``steps`` a value holds until the next one."""
        if len(points) < 2:
            return
        (x, y), *rest = ((self.across(x), self.up(y)) for x, y in points)
        path = [f"M{x:g} {y:g}"]
        path += [f"H{x:g}V{y:g}" if steps else f"L{x:g} {y:g}" for x, y in rest]
        self.layers.append(Layer(kind, "".join(path)))

    @property
    def left(self) -> float:
        return LEFT

    @property
    def right(self) -> float:
        return self.width - RIGHT

    @property
    def top(self) -> float:
        return TOP

    @property
    def bottom(self) -> float:
        return self.height - BOTTOM

    @property
    def under(self) -> list[Tick]:
        return self.names or self.across.ticks


def chart(label: str, across: Sequence[float], up: Sequence[float], titles: tuple[str, str], *, width: float = WIDTH,
          logarithmic: bool = False, cut: bool = True) -> Chart:
    """An empty one with room for these values. ``logarithmic``: across. ``cut``: a few that are far away may be drawn
    on the edge.
    """
    vertical = axis_of(up, HEIGHT - BOTTOM, TOP, cut=cut)
    return Chart(label, axis_of(across, LEFT, width - RIGHT, logarithmic=logarithmic), vertical, *titles, width=width,
                 beyond=sum(not vertical.low <= value <= vertical.high for value in up))
