"""Why metrics of a script that does not import nni were not found, as a sentence."""

from __future__ import annotations

#: Problem -> what is said of it; {} is the detail.
METRIC_PROBLEMS = {
    "slow_pattern": "the pattern for {} takes too long on some lines, so it is not searched in the rest. Let it match "
                    "in fewer ways, for instance without (...*)*",
    "unknown_pattern": "the Python of the trial's machine does not understand the pattern for {}. Use an older syntax",
    "damaged_file": "the event file {} is damaged, and what follows the damage is not read",
    "not_read_in_time": "there is so much in {} that it could not be read to its end within ten minutes after the "
                        "command, or before the trial was stopped. Let the script write less, or name another file",
    "too_many_files": "more files than are read match {}. Make the pattern narrower",
}


def metrics_not_found(trial: int, problem: str, detail: str = "") -> str:
    """The sentence of the reason ``metrics_not_found``."""
    if problem == "no_result":
        found = f"Found: {detail}." if detail else "No other metric was found either."
        return (f"Trial {trial} ended well, but its result was not found. {found} Compare metrics.result and the other "
                "fields of metrics with what the script prints or writes. Files are looked for in $NNI_OUTPUT_DIR "
                "alone: start a script that writes into its working directory with cd \"$NNI_OUTPUT_DIR\".")
    return f"Metrics of trial {trial} are missing, because {METRIC_PROBLEMS.get(problem, problem).format(detail)}."
