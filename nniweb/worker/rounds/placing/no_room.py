"""The codes with which platforms say that a trial waits because there is no room now."""

#: Of "scheduler" with the causes below.
NO_ROOM = frozenset({"gpu_held", "machines_busy", "machine_full", "machine_kept", "gpu_taken", "machine_share_held",
                     "nodes_busy", "most_objects", "pod_unschedulable", "scheduler"})
SCHEDULERS_NO_ROOM = frozenset({"Resources", "Priority"})
