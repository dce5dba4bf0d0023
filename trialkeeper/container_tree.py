"""The processes of a trial that runs in a container: those inside, as long as there are some, then the engine's.

The processes inside are processes of this machine with numbers of their own here. Under podman they descend from the
keeper, under docker from a daemon; they are known by a variable that is set inside alone.
"""

import time
from typing import Callable, List, Optional, Sequence, Set, Tuple

from trialkeeper import machine
from trialkeeper.container_command import INSIDE_VARIABLE
from trialkeeper.control_group import ControlGroup
from trialkeeper.process_tree import ProcessTree, descendants

#: Seconds that the engine has, where nothing is inside, to begin, or to clear up by itself.
ENGINE_PATIENCE = 10.0


class ContainerTree(ProcessTree):
    """Signals go to what is inside; the engine's own processes hear one where nothing is, or they do not end."""

    def __init__(self, mark: str, first_pid: int, first_start_time: Optional[str], *, own_children: bool,
                 reaps_orphans: bool, group: Optional[ControlGroup] = None,
                 orphans: Sequence[Tuple[int, Optional[str]]] = (),
                 clock: Callable[[], float] = time.monotonic) -> None:
        """As ``ProcessTree``; ``first_pid``: of the engine's program. ``clock``: monotonic seconds."""
        super().__init__(mark, first_pid, first_start_time, own_children=own_children, reaps_orphans=reaps_orphans,
                         group=group, orphans=orphans)
        self._inside_mark = ("%s=%s" % (INSIDE_VARIABLE, mark)).encode()
        self._clock = clock
        self._known: Set[Tuple[int, Optional[str]]] = set()
        self._quiet_since: Optional[float] = None

    def is_empty(self) -> bool:
        """Whether neither the trial nor its engine's program runs any more."""
        return not self._inside() and super().is_empty()

    def members(self) -> List[int]:
        """Process ids of those to be told; [] while the engine is left to clear up."""
        inside = self._inside()
        if inside:
            self._quiet_since = None
            return inside
        if not self._own_children:  # whoever would begin it now has no keeper
            return super().members()
        now = self._clock()
        self._quiet_since = now if self._quiet_since is None else self._quiet_since
        return [] if now - self._quiet_since < ENGINE_PATIENCE else super().members()

    def members_for_readings(self) -> List[int]:
        """Those inside: what the engine itself uses is not the trial's."""
        return self._inside()

    def _inside(self) -> List[int]:
        """A process that is known, and all that it started, are inside; others are looked for where none is known."""
        self._known = {(pid, started) for pid, started in self._known if machine.process_lives(pid, started)}
        table = machine.process_table()
        if not self._known:
            self._known = {(pid, machine.process_start_time(pid)) for pid, _, _, _ in table
                           if self._has_variable(pid, self._inside_mark)}
        pids = {pid for pid, _ in self._known}
        return sorted(pids | descendants(pids, table))
