"""The names of an experiment's parameters, as filters, columns and orders use them: nested ones with a dot."""

from nniweb.experiments.downloads.export import flat
from nniweb.experiments.models import Experiment, TrialParameters

#: Trials whose parameters are looked at: nested choices and tuners of one's own have names that no search space tells.
_LOOKED_AT = 20


def parameter_names(experiment: Experiment) -> list[str]:
    """Names in the order of the search space, then those that only the newest trials have. One query."""
    names = list(experiment.search_space or {})
    newest = TrialParameters.objects.filter(trial__experiment=experiment, index=0).order_by("-trial__sequence_id")
    for value in newest.values_list("value", flat=True)[:_LOOKED_AT]:
        for name in flat(value):
            if name in names:
                continue
            outer = name.split(".")[0]
            # beside the outer one, which holds nothing that can be compared
            beside = [place for place, known in enumerate(names) if known == outer or known.startswith(f"{outer}.")]
            names.insert(beside[-1] + 1 if beside else len(names), name)
    return [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
