"""What the keeper is told from outside: by the server, by signals, by files in the attempt's folder."""

import json
import os
import signal
from typing import Any, Callable, Dict, List, Optional

from trialkeeper import contract, reporter
from trialkeeper.orders_file import OrdersFile
from trialkeeper.wakeups import FOR_TRIALS, Wakeups

#: Seconds between two looks at the files a platform may put into the folder.
FOLDER_LOOK_EVERY = 1.0


class Inbox:
    """Filled by ``wait``, on the main thread; the keeper looks at the attributes and acts."""

    def __init__(self, folder: str, wakeups: Wakeups, *, write_parameters: Callable[[int, str], None],
                 log: Callable[[str], None], clock: Callable[[], float]) -> None:
        """``write_parameters(index, text)`` may raise OSError; ``clock``: monotonic seconds."""
        self._canceled_file = os.path.join(folder, contract.CANCELED_FILE)
        self._wakeups, self._write_parameters, self._log, self._clock = wakeups, write_parameters, log, clock
        self._orders = OrdersFile(folder, log)
        self._next_folder_look = 0.0
        #: Why the trial must end, None as long as it may go on. The first reason counts.
        self.stop: Optional[str] = None
        #: Whether it must because the server or the platform's tombstone says so: not by a signal alone.
        self.is_stop_ordered = False
        #: Whether it shall end so that it can go on later. A stop that is ordered counts more.
        self.is_freeze = False
        #: What the server said when it turned out that the attempt is another keeper's.
        self.claimed: Optional[str] = None
        #: How delivering ended (reporter.DONE).
        self.done: Optional[str] = None
        #: Whether a server has answered.
        self.answered = False
        #: Results of what was begun by ``Wakeups.in_background``, by its word.
        self.results: Dict[str, Any] = {}

    @property
    def may_go_on(self) -> bool:
        return self.stop is None and self.claimed is None

    @property
    def end_reason(self) -> str:
        """Of a trial that ends because it may not go on: one of contract.END_REASONS."""
        return contract.FROZEN if self.is_freeze and not self.is_stop_ordered else contract.STOPPED

    def is_canceled(self) -> bool:
        """Whether the tombstone stands."""
        return os.path.exists(self._canceled_file)

    def signals_for_trial(self) -> List[int]:
        """Those that came for it since the last call."""
        noted = self._wakeups.signals_for_trial
        return [noted.pop(0) for _ in range(len(noted))]

    def wait(self, seconds: float) -> None:
        """Wait until something happens, at most this long, and take in what came."""
        self._wakeups.wait(seconds)
        for word, detail in self._wakeups.news():
            if word == reporter.ANSWERED:
                self.answered = True
            elif word == reporter.ORDERS:
                self._obey(detail)
            elif word == reporter.CLAIMED:
                self.claimed = detail
            elif word == reporter.GONE:
                self._order_stop(detail)
            elif word == reporter.DONE:
                self.done = detail
            else:
                self.results[word] = detail
        if self._wakeups.stop_signals:
            self._ask_to_stop("its keeper was told to end (%s)" % signal.Signals(self._wakeups.stop_signals[0]).name)
        if self._clock() >= self._next_folder_look or self._orders.is_new():
            self._next_folder_look = self._clock() + FOLDER_LOOK_EVERY
            if self.is_canceled():
                self._order_stop("cancelled")
            if self._orders.is_new():
                self._obey(self._orders.take())

    def _order_stop(self, why: str) -> None:
        self.is_stop_ordered = True
        self._ask_to_stop(why)

    def _ask_to_stop(self, why: str) -> None:
        if self.stop is None:
            self.stop = why

    def _obey(self, orders: Any) -> None:
        for order in orders if isinstance(orders, list) else []:
            word = order.get("order") if isinstance(order, dict) else None
            if word == contract.ORDER_STOP:
                self._order_stop(str(order.get("reason") or "stopped by order"))
            elif word == contract.ORDER_END:
                self._ask_to_stop(str(order.get("reason") or "told to end"))
            elif word == contract.ORDER_SIGNAL and isinstance(order.get("number"), int) \
                    and order["number"] in FOR_TRIALS:
                self._wakeups.signals_for_trial.append(order["number"])
            elif word == contract.ORDER_FREEZE:
                if not self.is_freeze:
                    self._log("the trial is being frozen: %s" % order.get("reason"))
                self.is_freeze = True
                self._ask_to_stop(str(order.get("reason") or "frozen by order"))
            elif word == contract.ORDER_PARAMETERS and isinstance(order.get("index"), int) \
                    and isinstance(order.get("text"), str):
                try:
                    self._write_parameters(order["index"], order["text"])
                except OSError as error:
                    self._log("parameters %d could not be written: %s" % (order["index"], error))
            else:
                self._log("an order is not understood: %.300s" % json.dumps(order))
