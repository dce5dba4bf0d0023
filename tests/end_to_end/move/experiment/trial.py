"""A trial whose reports follow from its parameters alone, whatever machine it is on."""

import os

import nni

parameters = nni.get_next_parameter()
loss = abs(parameters["rate"] - 0.03125) + parameters["width"] / 1024 + parameters["depth"] / 64
loss += parameters["layer"].get("dropout", 0.25)
for step in range(3):
    nni.report_intermediate_result(loss + 1 / (1 << step))
nni.report_intermediate_result(float("nan"))
nni.report_intermediate_result({"default": loss, "layer": parameters["layer"]["_name"], "files": sorted(
    name for name in os.listdir(".") if not name.startswith((".", "__")))})
nni.report_final_result({"default": loss, "sequence": nni.get_sequence_id()})
