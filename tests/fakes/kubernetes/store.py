"""What the API double remembers: objects with versions, and the events that watches are told."""

from __future__ import annotations

import copy
import threading
import time
import uuid
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


def now_text(at: float | None = None) -> str:
    """A time as the API writes it: UTC, whole seconds."""
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """Objects by (plural, namespace, name). Every change has the next resourceVersion and is an event.

    ``changed`` is notified on each change. Objects that are handed out are never changed afterwards.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._version = 1000
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        #: uid of an owner -> (plural, namespace, name) of what names it: asked at each deletion
        self._owned: dict[str, dict[tuple[str, str, str], None]] = {}
        self._places: dict[str, tuple[str, str, str]] = {}  # uid -> (plural, namespace, name)
        #: (version, plural, namespace, type, object)
        self._events: list[tuple[int, str, str, str, Object]] = []
        #: Watches from versions before this one are answered with 410.
        self.compacted = 0

    @property
    def version(self) -> int:
        return self._version

    def get(self, plural: str, namespace: str, name: str) -> Object | None:
        with self.changed:
            return self._objects.get(plural, {}).get((namespace, name))

    def all(self, plural: str, namespace: str | None = None) -> list[Object]:
        with self.changed:
            return [item for (its_namespace, _), item in sorted(self._objects.get(plural, {}).items())
                    if namespace in (None, its_namespace)]

    def owned_by(self, uid: str) -> list[tuple[str, Object]]:
        """(plural, object) of all that names this one as an owner."""
        with self.changed:
            return [(plural, item) for plural, namespace, name in self._owned.get(uid, ())
                    if (item := self.get(plural, namespace, name)) is not None]

    def create(self, plural: str, namespace: str, item: Object) -> Object | None:
        """The stored object; None where the name is taken."""
        with self.changed:
            name = item["metadata"]["name"]
            table = self._objects.setdefault(plural, {})
            if (namespace, name) in table:
                return None
            item = copy.deepcopy(item)
            metadata = item["metadata"]
            metadata |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now_text()}
            if "spec" in item and plural != "pods":
                metadata["generation"] = 1
            return self._put(plural, namespace, item, "ADDED")

    def change(self, plural: str, namespace: str, name: str, change: Callable[[Object], None]) -> Object | None:
        """Change an object; None where it is gone. A change that changes nothing is no event."""
        with self.changed:
            before = self._objects.get(plural, {}).get((namespace, name))
            if before is None:
                return None
            item = copy.deepcopy(before)
            change(item)
            if item == before:
                return before
            return self._put(plural, namespace, item, "MODIFIED")

    def remove(self, plural: str, namespace: str, name: str) -> Object | None:
        with self.changed:
            item = self._objects.get(plural, {}).pop((namespace, name), None)
            if item is None:
                return None
            self._note_owners(plural, namespace, item, {})
            self._places.pop(item["metadata"].get("uid", ""), None)
            item = copy.deepcopy(item)
            self._note(plural, namespace, item, "DELETED")
            return item

    def _put(self, plural: str, namespace: str, item: Object, kind: str) -> Object:
        self._note(plural, namespace, item, kind)
        table = self._objects.setdefault(plural, {})
        self._note_owners(plural, namespace, table.get((namespace, item["metadata"]["name"]), {}), item)
        table[namespace, item["metadata"]["name"]] = item
        self._places[item["metadata"].get("uid", "")] = (plural, namespace, item["metadata"]["name"])
        return item

    def _note_owners(self, plural: str, namespace: str, before: Object, after: Object) -> None:
        name = (before or after)["metadata"]["name"]
        for uid in _owners(before) - _owners(after):
            self._owned[uid].pop((plural, namespace, name))
            if not self._owned[uid]:
                del self._owned[uid]
        for uid in _owners(after) - _owners(before):
            self._owned.setdefault(uid, {})[plural, namespace, name] = None

    def _note(self, plural: str, namespace: str, item: Object, kind: str) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, plural, namespace, kind, item))
        self.changed.notify_all()

    def events_after(self, version: int, plural: str, namespace: str) -> list[tuple[int, str, Object]]:
        """(version, type, object) of each change since; call it with ``changed`` held to wait for more."""
        found = []
        for event in reversed(self._events):
            if event[0] <= version:
                break
            if event[1] == plural and namespace in ("", event[2]):
                found.append((event[0], event[3], event[4]))
        return found[::-1]

    def touched_after(self, version: int, plurals: Collection[str]) -> list[tuple[str, Object]]:
        """(plural, object) of what changed since, and of the owners of that, of these kinds and as far as it is there.
        """
        uids: dict[str, None] = {}
        with self.changed:
            for event in reversed(self._events):
                if event[0] <= version:
                    break
                uids |= dict.fromkeys((event[4]["metadata"].get("uid", ""), *_owners(event[4])))
            places = [self._places[uid] for uid in uids if uid in self._places]
            return [(plural, item) for plural, namespace, name in places if plural in plurals
                    and (item := self.get(plural, namespace, name)) is not None]

    def number_of(self, plural: str) -> int:
        with self.changed:
            return len(self._objects.get(plural, {}))

    def compact(self) -> None:
        """Forget the past for lists and watches that begin: one from an earlier version is answered with 410.

        A watch that is open is told of everything, as the API server's watch cache does it.
        """
        with self.changed:
            self._version += 1
            self.compacted = self._version
            self.changed.notify_all()


def _owners(item: Object) -> set[str]:
    return {reference["uid"] for reference in (item.get("metadata") or {}).get("ownerReferences") or []}


def matches(item: Object, selector: str) -> bool:
    """Whether an object has the labels of a selector: ``a=b,c==d,e!=f,g,!h``."""
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        if "!=" in part:
            key, _, value = part.partition("!=")
            if labels.get(key) == value:
                return False
        elif "=" in part:
            key, _, value = part.partition("=")
            if labels.get(key) != value.removeprefix("="):
                return False
        elif (part.removeprefix("!") in labels) == part.startswith("!"):
            return False
    return True
