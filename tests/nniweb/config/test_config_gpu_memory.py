"""``gpuMemory`` in files: a size, auto or whole."""

import pytest

from nniweb.experiments.config import parse_experiment_config
from nniweb.experiments.config.errors import ConfigInvalid
from nniweb.experiments.config.resolved import resolved_document

FILE = """searchSpace: {x: {_type: uniform, _value: [0, 1]}}
trialCommand: "true"
trialConcurrency: 1
trialGpuNumber: 1
tuner: {name: Random}
trainingService: {platform: local}
gpuMemory: %s
"""


@pytest.mark.parametrize(("text", "stored"), [
    ("auto", "auto"), ("whole", None), ("6GB", 6144), ("512", 512), ("1.5gb", 1536)])
def test_a_size_has_a_unit_or_is_megabytes(text: str, stored: object) -> None:
    settings = parse_experiment_config(FILE % text).settings
    assert settings.gpu_memory == stored
    assert resolved_document(settings).get("gpuMemory") == stored


@pytest.mark.parametrize("text", ["much", "0", "-3", "[1]", "9999999999gb", "true"])
def test_anything_else_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_experiment_config(FILE % text)
    assert "gpuMemory" in str(refused.value)
