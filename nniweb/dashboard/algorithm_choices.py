"""Tuners and assessors, to be chosen in a form."""

from collections.abc import Iterable

from nniweb.tuning.algorithms import Algorithm


def choices(algorithms: Iterable[Algorithm]) -> list[dict[str, str]]:
    """Each one's name and the names of its arguments; the direction is asked for, or known, elsewhere."""
    return [{"name": each.name, "arguments": ", ".join(name for name in each.class_args.model_fields
                                                       if name != "optimize_mode")} for each in algorithms]
