"""On which of its experiment's clusters a trial runs: a decision over plain values, with what each other cluster said.

Of the clusters that can be used and have room, those that come after another one of them are left out. Of the rest one
without recent failures goes first, then the cheapest, then the one that has fewest trials for its weight, then one
where the trial ran before, then one that has the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trainingservice.reasons import Reason, as_document

#: What decides between two clusters with room, in the order of ``_key``.
_DECIDES = ("failures", "cost", "weight", "checkpoint", "code")
#: So many failures within so many seconds, by the platform's fault, and a cluster is used only where no other can be.
MANY_FAILURES, LATELY = 3, 600.0


@dataclass
class ClusterRoom:
    """A cluster as it is for one experiment. ``place`` counts what it puts there."""

    cluster: int  #: primary key
    name: str
    weight: float = 1.0
    cost: float | None = None
    #: Primary keys of the clusters that go first.
    after: tuple[int, ...] = ()
    #: Trials of the experiment there.
    under_way: int = 0
    #: How many more fit, and what is said when it is 0; None: not known.
    room: int | None = None
    why_full: str = ""
    #: Why it gets no trials, whatever room it has; "" where it can be used.
    why_not: str = ""
    is_failing: bool = False
    has_code: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it can be used and may have room."""
        return not self.why_not and self.room != 0


@dataclass(frozen=True)
class Placement:
    """The chosen cluster (primary key), None where there is none; what each other one said, by its name."""

    cluster: int | None
    said: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def reason(self) -> Reason:
        """Why it runs there, or for what it waits."""
        return Reason("clusters_full" if self.cluster is None else "chosen", clusters=[
            {"cluster": name, **as_document(reason)} for name, reason in self.said.items()])


def place(rooms: Sequence[ClusterRoom], ran_on: Sequence[int | None]) -> list[Placement]:
    """Place trials, one after the other. ``ran_on``: for each trial the cluster where it ran last, None for none.

    The first that finds no room is the last in the answer, because those behind it would find none either. Those of
    which the same is to be said are one object.
    """
    first_of = _all_before(rooms)
    said: dict[tuple[Any, ...], Placement] = {}
    placements = []
    for before in ran_on:
        chosen, whys = _place_one(rooms, first_of, before)
        key = (chosen and chosen.cluster, *whys)
        if key not in said:
            said[key] = _placement(rooms, chosen, whys)
        placements.append(said[key])
        if chosen is None:
            break
        chosen.under_way += 1
        if chosen.room is not None:
            chosen.room -= 1
    return placements


def how_many(rooms: Sequence[ClusterRoom], wanted: int) -> int:
    """How many of ``wanted`` new trials have a place now. Changes nothing."""
    left = 0
    for one in rooms:
        if not one.why_not:
            if one.room is None:
                return wanted
            left += one.room
    return min(wanted, left)


def _place_one(rooms: Sequence[ClusterRoom], first_of: Mapping[int, set[int]], before: int | None
               ) -> tuple[ClusterRoom | None, list[str | tuple[str, ...]]]:
    """The chosen one, and of each what was against it: "" of itself and of those that say why for themselves, the names
    of those that go first, or what decided.
    """
    possible = {one.cluster: one for one in rooms if one.is_open}
    waiting = {pk: tuple(possible[first].name for first in possible if first in first_of[pk]) if first_of[pk] else ()
               for pk in possible}
    keys = {pk: _key(one, before) for pk, one in possible.items() if not waiting[pk]}
    best = min(keys, key=keys.__getitem__) if keys else None
    return possible.get(best) if best is not None else None, [
        "" if one.cluster == best or one.cluster not in possible
        else waiting[one.cluster] or _what_decided(keys[best or 0], keys[one.cluster]) for one in rooms]


def _placement(rooms: Sequence[ClusterRoom], chosen: ClusterRoom | None, whys: Sequence[str | tuple[str, ...]]
               ) -> Placement:
    said: dict[str, str] = {}
    for one, why in zip(rooms, whys, strict=True):
        if one is chosen:
            continue
        if isinstance(why, tuple):
            said[one.name] = Reason("goes_after", clusters=list(why))
        elif why and chosen is not None:
            said[one.name] = Reason("not_chosen", by=why, chosen=chosen.name)
        else:
            said[one.name] = one.why_not or one.why_full
    return Placement(chosen.cluster if chosen is not None else None, said)


def _key(one: ClusterRoom, before: int | None) -> tuple[bool, float, float, bool, bool]:
    return (one.is_failing, one.cost or 0.0, (one.under_way + 1) / one.weight, one.cluster != before, not one.has_code)


def _what_decided(chosen: Sequence[float], other: Sequence[float]) -> str:
    return next((what for what, mine, its in zip(_DECIDES, chosen, other, strict=True) if mine != its), "weight")


def _all_before(rooms: Sequence[ClusterRoom]) -> dict[int, set[int]]:
    """Each cluster -> all that go before it: those it names, those that they name, and so on."""
    named = {one.cluster: set(one.after) for one in rooms}
    found = {}
    for pk in named:
        before: set[int] = set()
        open_ones = list(named[pk])
        while open_ones:
            first = open_ones.pop()
            if first not in before and first != pk:
                before.add(first)
                open_ones += named.get(first, ())
        found[pk] = before
    return found
