"""A trial while it runs: until its process has ended, or it is told to end and nothing of it is left."""

import signal
from typing import Callable, Optional, Tuple

from trialkeeper import contract
from trialkeeper.child_process import LOOK_INTERVAL, ChildProcess, TreeEnding
from trialkeeper.control_group import Gathering
from trialkeeper.end_record import explanation
from trialkeeper.inbox import Inbox
from trialkeeper.memory_watch import MemoryWatch
from trialkeeper.process_tree import ProcessTree

#: Seconds between two looks at the trial's files.
LOOK_EVERY = 0.1
#: Seconds after its start until a trial without limits is taken into a control group: what is over sooner does without.
GATHER_AFTER = 0.5
#: Seconds within which the processes of a job are signaled where a scheduler signals all of them.
SIGNALS_APART = 1.0


class TrialWatch:
    """Call ``run``, then read the rest. ``pump`` is called at each look, for what the trial has written meanwhile."""

    def __init__(self, child: ChildProcess, tree: ProcessTree, inbox: Inbox, gathering: Gathering,
                 pump: Callable[[], object], *, time_limit: Optional[float], grace_period: float,
                 saving_grace: float, freeze_signal: int, clock: Callable[[], float],
                 memory: Optional[MemoryWatch] = None) -> None:
        """``time_limit`` and ``grace_period`` (between TERM and KILL) in seconds. ``saving_grace``: in its place where
        the trial may go on later from what it saves meanwhile. ``freeze_signal``: in place of TERM on a freeze.
        ``memory``: ends the trial where the kernel does not keep it within its limit.
        """
        self._child, self._tree, self._inbox, self._pump = child, tree, inbox, pump
        self._gathering: Optional[Gathering] = gathering
        self._gather_after = 0.0 if gathering.limits.are_any else GATHER_AFTER
        self._memory = memory
        self._time_limit, self._grace_period, self._clock = time_limit, grace_period, clock
        self._saving_grace, self._freeze_signal = saving_grace, freeze_signal
        self._began = clock()
        self._ended_at: Optional[float] = None
        self._ending: Optional[TreeEnding] = None
        self._reason, self._message = contract.EXITED, ""
        #: Seconds until the process ended.
        self.duration = 0.0

    def run(self) -> None:
        """Returns when nothing of the trial runs any more, or what does cannot be killed."""
        while not self._is_over():
            self._pump()
            self._inbox.wait(self._until_next_look())
        self.duration = (self._ended_at or self._clock()) - self._began

    def reason_and_message(self) -> Tuple[str, str]:
        """Why it ended: one of contract.END_REASONS, and a sentence where a person may wonder."""
        reason, message = self._reason, self._message
        if self._ending is not None and self._ending.left_behind:
            message += "%s%d processes did not end even when killed" % (
                "; " if message else "", self._ending.left_behind)
        if reason == contract.EXITED and (
                self._child.signal == signal.SIGTERM and self._is_told_to_end_too()
                or self._child.signal == signal.SIGKILL and self._inbox.is_canceled()):
            reason, message = self._inbox.end_reason, self._inbox.stop or "cancelled"
        if reason == contract.FROZEN:  # unless a stop came meanwhile
            reason = self._inbox.end_reason
        if reason == contract.EXITED:
            message = explanation(self._child) or message
        return reason, message

    def _is_over(self) -> bool:
        if self._child.reap() and self._ended_at is None:
            self._ended_at = self._clock()
        if self._ending is None:
            for number in self._inbox.signals_for_trial():
                self._tree.hand_on(number)
            self._look_for_end()
            self._gather()
            if self._has_too_much_memory():
                self._ending = TreeEnding(self._tree, 0.0, self._clock)  # as the kernel does it: it would go on to take
            elif self._ended_at is not None or self._reason != contract.EXITED:
                self._ending = self._end()
        elif self._inbox.is_stop_ordered:
            self._ending.hurry(self._grace_period)
        return self._ending is not None and self._ending.step() and bool(
            self._child.reap() or self._ending.left_behind)

    def _end(self) -> TreeEnding:
        if self._reason == contract.FROZEN:
            return TreeEnding(self._tree, self._saving_grace, self._clock, self._freeze_signal)
        may_go_on_later = self._reason == contract.STOPPED and self._inbox.claimed is None
        return TreeEnding(self._tree, self._saving_grace if may_go_on_later else self._grace_period, self._clock)

    def _look_for_end(self) -> None:
        if self._ended_at is not None:
            return
        if not self._inbox.may_go_on:
            self._reason, self._message = self._inbox.end_reason, self._inbox.stop or ""
        elif self._time_limit is not None and self._clock() - self._began >= self._time_limit:
            self._reason, self._message = contract.TIME_LIMIT, "it ran longer than %g s" % self._time_limit

    def _gather(self) -> None:
        if self._gathering is not None and self._clock() - self._began >= self._gather_after:
            is_done = self._gathering.step()
            self._tree.group = self._gathering.group
            if is_done:
                # what it had taken before it was in its group does not count there: one more look
                if self._gathering.limits_memory and self._memory is not None and not self._memory.is_over_now():
                    self._memory = None
                self._gathering = None

    def _has_too_much_memory(self) -> bool:
        return self._memory is not None and self._ended_at is None and self._reason == contract.EXITED \
            and self._memory.is_over()

    def _until_next_look(self) -> float:
        if self._ending is not None:
            return LOOK_INTERVAL
        if self._time_limit is None:
            return LOOK_EVERY
        return min(LOOK_EVERY, self._began + self._time_limit - self._clock())

    def _is_told_to_end_too(self) -> bool:
        """Whether what ended the trial was sent to all processes of its job: then our own signal comes with it."""
        until = self._clock() + SIGNALS_APART
        while self._inbox.may_go_on and self._clock() < until:
            self._inbox.wait(until - self._clock())
        return self._inbox.stop is not None
