"""NNI's GP tuner: a Gaussian process and one of three rules for the next point."""

import functools

from nniweb.tuning.class_args import GpArgs
from nniweb.tuning.search_space.space import SearchSpace
from nniweb.tuning.tuner_base.acquisition import confidence_bound, expected_improvement, probability_of_improvement
from nniweb.tuning.tuner_base.surrogate_search import Acquisition, Surrogate, SurrogateSearch

# An ask costs the cube of the results that are modelled; beyond this many it would take seconds.
MODELLED_TRIALS = 200
# More random candidates than this find nothing better, they only take time.
_MOST_CANDIDATES = 4000


def _acquisition(args: GpArgs) -> Acquisition:
    if args.utility == "ucb":
        return functools.partial(confidence_bound, kappa=args.kappa)
    if args.utility == "poi":
        return functools.partial(probability_of_improvement, xi=args.xi)
    return functools.partial(expected_improvement, xi=args.xi)


def _model(args: GpArgs) -> Surrogate:
    # not at the top: scikit-learn takes seconds to load, and the first proposals are random
    from nniweb.tuning.tuner_base.gaussian_process import GaussianProcess

    return GaussianProcess(args.nu, args.alpha)


class GaussianProcessSearch(SurrogateSearch):
    """The tuner GP."""

    def is_gaussian_process(self) -> bool:
        return True


def build(space: SearchSpace, seed: int, optimize_mode: str, args: GpArgs) -> GaussianProcessSearch:
    return GaussianProcessSearch(
        space,
        seed,
        optimize_mode,
        surrogate=functools.partial(_model, args),
        acquisition=_acquisition(args),
        cold_start=args.cold_start_num,
        samples=min(args.selection_num_warm_up, _MOST_CANDIDATES),
        most=MODELLED_TRIALS,
    )
