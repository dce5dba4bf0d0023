"""The control group of all trials of a machine (cgroup v2), in which each of them can be limited.

A group whose groups are limited by the kernel must not have processes of its own. So it is made where that holds and
nobody else decides over the groups:

* in the group above that of this process, where systemd has delegated it (``Delegate=yes`` and ``DelegateSubgroup=``);
* at the top of the hierarchy, as Docker does it, where this process runs as root in a session, as over SSH, or outside
  of all groups.

Elsewhere trials are in groups of their own (``control_group.py``) without limits, and keepers watch their memory. All
trials together are kept from taking the last of the machine's memory: the group has a limit that leaves some to the
system.
"""

import os
from typing import List, Optional

from trialkeeper import control_group
from trialkeeper.attempt_folder import read_text
from trialkeeper.group_limits import write_value
from trialkeeper.machine_share import memory_for_trials, usable_memory

NAME = "nniweb-trials"
_CONTROLLERS = ("memory", "cpu")
#: With these systemd marks a group that it leaves to others; the second one only root can read.
_MARKS = ("user.delegate", "trusted.delegate")


def prepare_trials_group() -> None:
    """Have groups of trials made in the group of all trials from now on, where there can be one. For an agent, before
    it starts keepers. May be repeated.
    """
    control_group.use_folder(None)
    own = control_group.own_folder()
    place = None if own is None else place_for(own)
    if place is not None:
        control_group.use_folder(made_in(place, own))


def place_for(own: str) -> Optional[str]:
    """Folder of the group in which that of all trials belongs; None where there is none. ``own``: of this process."""
    above = os.path.dirname(own)
    if _is_group(above) and _is_delegated(above):
        return above if not (read_text(os.path.join(above, "cgroup.procs")) or "").split() else None
    if os.geteuid() != 0:
        return None
    top = own
    while _is_group(os.path.dirname(top)):
        top = os.path.dirname(top)
    is_real_top = not os.path.exists(os.path.join(top, "cgroup.events"))
    is_of_a_session = own == top or os.path.basename(own).endswith(".scope")
    return top if is_real_top and is_of_a_session else None


def made_in(place: str, own: Optional[str]) -> Optional[str]:
    """The group of all trials there, made where it is not; None where it cannot be, or memory cannot be limited."""
    if "memory" not in _words(place, "cgroup.controllers"):
        return None
    group = os.path.join(place, NAME)
    _enable(place)
    try:
        os.makedirs(group, exist_ok=True)
    except OSError:
        return None
    _enable(group)
    if "memory" not in _words(group, "cgroup.subtree_control"):
        return None
    usable = usable_memory(own)
    if usable is not None:
        write_value(group, "memory.max", str(memory_for_trials(usable)))
    return group


def _enable(group: str) -> None:
    enabled = _words(group, "cgroup.subtree_control")
    for controller in _CONTROLLERS:
        if controller not in enabled and controller in _words(group, "cgroup.controllers"):
            write_value(group, "cgroup.subtree_control", "+" + controller)


def _words(group: str, name: str) -> List[str]:
    return (read_text(os.path.join(group, name)) or "").split()


def _is_group(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "cgroup.controllers"))


def _is_delegated(group: str) -> bool:
    for mark in _MARKS:
        try:
            if os.getxattr(group, mark) == b"1":
                return os.access(group, os.W_OK)
        except (AttributeError, OSError):
            continue
    return False
