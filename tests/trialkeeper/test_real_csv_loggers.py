"""The files that the CSV loggers of Lightning and Keras write, with the real libraries: each row is a result, once."""

from __future__ import annotations

import importlib.util
import json

import pytest

#: The accuracy comes with the second epoch, so Lightning writes the file anew with another first line.
LIGHTNING = """
import os
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, place):
        loss = (self.layer(batch) ** 2).mean()
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss
    def validation_step(self, batch, place):
        self.log("val_loss", float(self.current_epoch))
        if self.current_epoch:
            self.log("val_acc", self.current_epoch / 10)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

data = torch.utils.data.DataLoader(torch.randn(8, 4), batch_size=4)
logger = CSVLogger(os.environ["NNI_OUTPUT_DIR"], flush_logs_every_n_steps=1)
Trainer(max_epochs=4, logger=logger, log_every_n_steps=1, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, accelerator="cpu").fit(Model(), data, data)
"""

#: Trained twice: the second training appends to the file of the first.
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy

data = numpy.random.rand(16, 4)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", metrics=["mae"])
for epochs in ((0, 2), (2, 4)):
    logger = keras.callbacks.CSVLogger(os.environ["NNI_OUTPUT_DIR"] + "/log.csv", append=bool(epochs[0]))
    model.fit(data, data.sum(1), validation_split=0.5, initial_epoch=epochs[0], epochs=epochs[1], callbacks=[logger],
              verbose=0)
"""


def needs(*names: str) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed, and its CSV logger is tried with it")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_file_that_lightning_writes_anew_has_each_epoch_once(keeper, server) -> None:
    needs("lightning")
    metrics = {"files": ["**/metrics.csv"], "result": "val_loss"}
    assert keeper.run(keeper.python_command(LIGHTNING), seconds=240, metrics=metrics) == 0, server.output("stderr")
    *values, final = [json.loads(value) for value in server.values()]
    assert [value["default"] for value in values] == [0, 1, 2, 3]
    assert [value.get("val_acc") for value in values[1:]] == pytest.approx([0.1, 0.2, 0.3])
    assert final["default"] == 3


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_file_to_which_keras_appends_has_each_epoch_once(keeper, server) -> None:
    needs("keras", "torch")
    metrics = {"files": ["log.csv"], "result": "val_mae"}
    assert keeper.run(keeper.python_command(KERAS), seconds=240, metrics=metrics) == 0, server.output("stderr")
    *values, final = [json.loads(value) for value in server.values()]
    assert len(values) == 4
    assert all({"default", "loss", "mae", "val_loss"} <= set(value) for value in values)
    assert final["default"] == values[-1]["default"]
