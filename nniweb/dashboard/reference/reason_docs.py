"""Which section of the documentation says more of a reason than its meaning does."""

from itertools import chain

#: Page and section -> codes of reasons. A test looks whether both are there.
_CODES = {
    "several-clusters#how-a-cluster-is-chosen": (
        "clusters_full", "chosen", "not_chosen", "no_weight", "at_most_there", "goes_after", "gpus_there",
        "waits_there", "limit_there"),
    "several-clusters#when-a-cluster-fails": (
        "unhealthy_there", "no_worker_there", "refused_there", "disabled_there", "moves", "home_away"),
    "several-clusters#changing-the-list": ("drained", "not_listed"),
    "checkpoints#freeze-and-thaw": ("frozen", "cannot_freeze", "frozen_with_experiment"),
    "checkpoints#what-the-server-keeps": (
        "checkpoint_quota", "checkpoint_failed", "checkpoint_resumed", "no_checkpoints"),
    "quotas#priority": ("gave_way", "gives_way", "preempting", "priority_quota"),
    "quotas#what-you-see-at-a-limit": ("quota", "quota_too_small", "experiment_quota", "gpu_quota"),
    "leashes#what-a-leash-limits": ("leash_trials", "leash_cluster", "leash_forbids"),
    "leashes#ending-one": ("token_ended",),
    "budgets#when-a-budget-is-used-up": ("budget", "no_budget"),
    "gpus#out-of-memory": ("out_of_memory", "gpus_too_small"),
    "gpus#how-gpus-are-read": ("gpus_not_seen", "gpus_unread", "no_nvidia_smi", "gpus_faulty"),
    "cpu-and-memory#booking": ("machine_share_held", "machine_too_small"),
    "platforms/local#gpus": ("gpu_held", "gpu_missing", "too_few_gpus", "too_few_gpus_named"),
    "platforms/local#the-python-of-the-trials": ("no_python",),
    "containers-on-machines#when-an-image-cannot-be-used": ("no_container_engine", "container_engine_fails"),
    "containers-on-machines#what-administrators-decide": ("container_not_permitted",),
    "multi-node": ("nodes_busy", "too_few_machines", "rank_failed"),
    "warm-trials#what-happens": ("warm_start",),
    "warm-trials#when-trials-are-started-plainly": ("plain_start",),
    "warm-trials#warm-places": (
        "place_lost", "place_idle", "place_failures", "place_limit", "place_unclean", "place_not_needed"),
    "your-script#metrics": ("metrics_not_found",),
    "how-to-debug#a-trial-waits": ("no_worker", "not_taken_up"),
    "how-to-debug#a-trial-failed": ("exit_code", "signal", "command_not_found", "not_executable", "not_started"),
    "how-to-debug#an-experiment-stopped-with-error": (
        "tuner_failed", "tuner_died", "assessor_failed", "given_up", "equal_failures", "code_not_fetched"),
    "how-to-debug#the-disk-is-full": ("database_refuses", "server_short"),
    "file-storage#when-the-storage-is-away": ("file_storage",),
    "upgrade": ("keeper_version",),
    "code-variants#what-is-checked": ("too_many_variants",),
    "external-tuner": (
        "waits_for_proposals", "proposals_complete", "not_external", "too_many_proposals", "key_of_another"),
    "tuners#which-tuner": (
        "auto_model", "auto_many_results", "auto_many_running", "auto_large_space", "auto_objectives",
        "auto_not_installed"),
    "search-space#constraints": ("constraint_broken", "proposals_refused", "constraints_unusable"),
    "objectives#constraints-on-outcomes": ("outcome_broken",),
    "objectives#objectives": ("objectives_missing",),
    "start-from-earlier#start-from-earlier-experiments": (
        "earlier_not_compared", "earlier_agrees", "earlier_disagrees"),
    "annotation": ("annotations_invalid",),
    "changes": ("no_such_change", "undone_already", "changed_since"),
    "clusters#in-the-form": (
        "unreachable", "connection_refused", "certificate_refused", "log_in_refused", "not_permitted",
        "settings_unusable"),
}
#: Code of a reason -> page and section.
DOCS_OF = dict(chain.from_iterable(((code, place) for code in codes) for place, codes in _CODES.items()))
