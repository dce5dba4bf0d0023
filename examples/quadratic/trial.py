"""Gradient descent in a long, narrow valley: which learning rate and how much momentum get down fastest?

Written like any NNI trial, and needs nothing but Python. The valley is ``x**2 / 2 + 8 * y**2``: a step small enough for
the steep direction is slow along the flat one, and momentum helps only up to a point.
"""

import nni

STEPS = 10
START = {"near": (1.0, 0.5), "far": (-4.0, 2.0)}


def height(x, y):
    return x**2 / 2 + 8 * y**2


def descend(learning_rate, momentum, start):
    """Yields the height after each step."""
    x, y = START[start]
    speed_x = speed_y = 0.0
    for _ in range(STEPS):
        speed_x = momentum * speed_x - learning_rate * x
        speed_y = momentum * speed_y - learning_rate * 16 * y
        x, y = x + speed_x, y + speed_y
        yield height(x, y)


def main():
    parameters = {"learning_rate": 0.05, "momentum": 0.0, "start": "near"}
    # Outside of an experiment there are no parameters: the defaults above are used.
    parameters.update(nni.get_next_parameter() or {})

    lowest = float("inf")
    for step, value in enumerate(descend(**parameters), start=1):
        print(f"step {step}: height {value:.6f}")
        nni.report_intermediate_result(value)
        lowest = min(lowest, value)
    nni.report_final_result(lowest)


if __name__ == "__main__":
    main()
