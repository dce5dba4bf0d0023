"""NNI's BOHB: Hyperband whose new configurations come from a model of earlier results, one model a budget."""

from nniweb.tuning.class_args import BohbArgs, TpeOptions
from nniweb.tuning.search_space.space import Parameters, SearchSpace
from nniweb.tuning.tuners.hyperband import BUDGET_KEY, Hyperband, brackets
from nniweb.tuning.tuners.tpe import Tpe

# Points of the model that are looked at for one that the constraints allow.
_LOOKS = 10


class Bohb(Hyperband):
    """The share ``random_fraction`` of new configurations is random. The others come from the model (Optuna's TPE) of
    the largest budget that has enough results; ``top_n_percent`` of a budget's results count as good.
    """

    def __init__(self, space: SearchSpace, seed: int, optimize_mode: str, args: BohbArgs) -> None:
        rounds = brackets(args.max_budget, args.min_budget, args.eta)
        super().__init__(space, seed, optimize_mode, rounds, is_serial=False)
        self._args = args
        self._mode = optimize_mode
        self._models: dict[int, Tpe] = {}
        self._budget_of: dict[int, int] = {}

    def new_configuration(self, number: int) -> Parameters:
        rng = self.rng(number)
        ready = [budget for budget, model in self._models.items() if model.can_model]
        if not ready or rng.random() < self._args.random_fraction:
            return self.space.sample(rng)
        for point in self._models[max(ready)].likely(rng, _LOOKS if self.space.constraints else 1):
            if self.space.allows(point):
                return point
        return self.space.sample(rng)

    def _place(self, number: int, parameters: Parameters, parent: int | None = None) -> None:
        super()._place(number, parameters, parent)
        self._budget_of[number] = parameters[BUDGET_KEY]
        self._model(parameters[BUDGET_KEY]).note_asked(number, parameters)

    def tell(self, number: int | None, parameters: Parameters, value: float | None, status: str,
             violation: float = 0.0) -> None:
        super().tell(number, parameters, value, status, violation)
        if number is not None and number in self._budget_of:
            self._model(self._budget_of[number]).tell(number, parameters, value, status, violation)
        elif number is None and value is not None:  # as in NNI, one that names no budget had the largest
            named = parameters.get(BUDGET_KEY)
            budget = named if isinstance(named, int) else self._args.max_budget
            self._model(budget).tell(None, parameters, value, status, violation)

    def update_search_space(self, space: SearchSpace) -> None:
        super().update_search_space(space)
        for model in self._models.values():
            model.update_search_space(space)

    def _model(self, budget: int) -> Tpe:
        if budget not in self._models:
            args = self._args
            fewest = args.min_points_in_model or len(self.space.parameters) + 1
            self._models[budget] = Tpe(self.space, self.seed, self._mode, TpeOptions(
                constant_liar_type=None, n_startup_jobs=fewest + 2, n_ei_candidates=args.num_samples
            ), good_share=args.top_n_percent / 100)  # fmt: skip
        return self._models[budget]


def build(space: SearchSpace, seed: int, optimize_mode: str, args: BohbArgs) -> Bohb:
    return Bohb(space, seed, optimize_mode, args)
