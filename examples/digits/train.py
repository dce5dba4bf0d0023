"""Trains a small neural network to read handwritten digits. Written like any NNI trial.

The 1797 digits come with scikit-learn. After every epoch the accuracy on images the network has not seen is reported;
because those are few, five networks are trained side by side, each with another fifth of the images held back, and the
mean of the five is what counts.

Every five epochs the networks are saved as a checkpoint. An interrupted trial goes on from there, also on another
machine.
"""

import os
import pickle

# Trials run beside each other: one thread each, or they fight over the cores. To be set before numpy is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import nni  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

EPOCHS = 20
SAVE_EVERY = 5
FOLDS = 5

DEFAULTS = {"hidden_units": 32, "learning_rate": 0.003, "alpha": 0.0001, "batch_size": 64, "activation": "relu"}


def new_network(parameters, random_state):
    return MLPClassifier(
        hidden_layer_sizes=(int(parameters["hidden_units"]),),
        learning_rate_init=parameters["learning_rate"],
        alpha=parameters["alpha"],
        batch_size=int(parameters["batch_size"]),
        activation=parameters["activation"],
        random_state=random_state,
    )


def main():
    # Outside of an experiment there are no parameters: the defaults are used.
    parameters = {**DEFAULTS, **(nni.get_next_parameter() or {})}
    print("parameters:", parameters, flush=True)

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0  # pixels are 0 to 16
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images, labels))
    checkpoint = nni.load_checkpoint()
    if checkpoint is None:
        networks, first = [new_network(parameters, random_state=number) for number in range(FOLDS)], 1
    else:  # this trial was interrupted
        with open(checkpoint, "rb") as file:
            networks, first = pickle.load(file), checkpoint.step + 1
        print(f"goes on after epoch {checkpoint.step}", flush=True)

    accuracy = 0.0
    for epoch in range(first, EPOCHS + 1):
        scores = []
        for network, (training, held_back) in zip(networks, folds, strict=True):
            network.partial_fit(images[training], labels[training], classes=range(10))
            scores.append(network.score(images[held_back], labels[held_back]))
        accuracy = sum(scores) / FOLDS
        print(f"epoch {epoch:2}: accuracy {accuracy:.4f}", flush=True)
        nni.report_intermediate_result(accuracy)
        if epoch % SAVE_EVERY == 0 and epoch < EPOCHS:
            with nni.save_checkpoint(step=epoch) as path, open(path, "wb") as file:
                pickle.dump(networks, file)

    nni.report_final_result(accuracy)


if __name__ == "__main__":
    main()
