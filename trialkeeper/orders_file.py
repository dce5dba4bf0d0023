"""Orders that a platform puts into the attempt's folder because nobody can be called (ORDERS_FILE)."""

import json
import os
from typing import Any, Callable, List, Optional, Tuple

from trialkeeper import contract
from trialkeeper.folder_reader import open_plain


class OrdersFile:
    """Takes each file of orders once, also where it cannot be removed."""

    def __init__(self, folder: str, log: Callable[[str], None]) -> None:
        self._path = os.path.join(folder, contract.ORDERS_FILE)
        self._log = log
        self._seen: Optional[Tuple[int, int]] = None

    def is_new(self) -> bool:
        """Whether orders wait that were not taken yet."""
        stamp = self._stamp()
        return stamp is not None and stamp != self._seen

    def take(self) -> List[Any]:
        """The orders as they stand there; [] where they cannot be read."""
        stamp = self._stamp()
        path = self._path
        try:
            taken = self._path + ".taken"
            os.replace(self._path, taken)  # orders written from now on are new ones
            path = taken
        except OSError:
            self._seen = stamp  # another user's file: remember it
        try:
            with open_plain(path) as stream:
                orders = json.load(stream)
        except (OSError, ValueError, RecursionError) as error:
            self._log("%s cannot be read: %s" % (self._path, error))
            return []
        return orders if isinstance(orders, list) else []

    def _stamp(self) -> Optional[Tuple[int, int]]:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_ino
