"""One of NNI's own tuners, for the Python that NNI is installed in: requests and answers, a line of JSON each.

    in    {"open": "tpe_tuner.TpeTuner", "space": {...}, "seed": 3}   {"ask": 7}   {"tell": 7, "parameters": ..., ...}
    out   {"ok": ...}   or   {"error": "a sentence"}
"""

import importlib
import inspect
import json
import os
import random
import sys
import warnings

import numpy

warnings.simplefilter("ignore")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what NNI prints is no answer

tuner = None


def open_tuner(path, space, seed):
    global tuner
    import nni

    module, name = path.split(".")
    random.seed(seed)
    numpy.random.seed(seed)
    kind = getattr(importlib.import_module("nni.algorithms.hpo." + module), name)
    if module == "gp_tuner":
        give_values_as_arrays(importlib.import_module("nni.algorithms.hpo.gp_tuner.util"))
    taken = inspect.signature(kind.__init__).parameters
    args = {"optimize_mode": "minimize", "seed": seed, "algorithm_name": "anneal"}
    tuner = kind(**{name: value for name, value in args.items() if name in taken})
    tuner.update_search_space(space)
    for holder in (tuner, getattr(tuner, "rval", None)):
        if isinstance(getattr(holder, "random_state", None), numpy.random.RandomState):
            holder.random_state = numpy.random.RandomState(seed)  # it takes no seed
    open_tuner.no_more = nni.NoMoreTrialError


def give_values_as_arrays(module):
    """NNI's GP takes the value of a minimum for an array, which it is in older versions of SciPy."""
    minimize = module.minimize

    def minimize_as_before(*args, **kwargs):
        found = minimize(*args, **kwargs)
        found.fun = numpy.atleast_1d(found.fun)
        return found

    module.minimize = minimize_as_before


def ask(number):
    try:
        found = tuner.generate_multiple_parameters([number], st_callback=lambda *_: None)
        return found[0] if found else None
    except open_tuner.no_more:
        return None


def tell(number, parameters, value):
    if value is not None:
        tuner.receive_trial_result(number, parameters, value)
    tuner.trial_end(number, value is not None)


class Plainly(json.JSONEncoder):
    def default(self, value):
        return value.item() if isinstance(value, numpy.generic) else super().default(value)


for line in sys.stdin:
    request = json.loads(line)
    try:
        if "open" in request:
            result = open_tuner(request["open"], request["space"], request["seed"])
        elif "ask" in request:
            result = ask(request["ask"])
        else:
            result = tell(request["tell"], request["parameters"], request["value"])
        answer = {"ok": result}
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(answer, cls=Plainly) + "\n")
    answers.flush()
