"""Says whether classes can be imported as algorithms here: ``python -m ... tuner demo_tuner.DemoTuner [VALIDATOR]``.

A process of its own, because it gives the name ``nni`` to the modules that stand in for NNI's.
"""

import sys

from nniweb.tuning.custom_algorithms.loading import load_assessor, load_tuner, load_validator
from nniweb.tuning.search_space.problem import InvalidInput


def main(kind: str, class_name: str, validator: str | None = None) -> int:
    """The exit status. What is wrong goes to standard output."""
    document = {"class_name": class_name, "validator": validator}
    try:
        (load_assessor if kind == "assessor" else load_tuner)(document)
        load_validator(document)
    except InvalidInput as error:
        print("; ".join(problem.message for problem in error.problems))  # noqa: T201  # this is its answer
        return 1
    except BaseException as error:  # what the module raises
        print(f"{class_name} cannot be imported: {type(error).__name__}: {error}")  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
