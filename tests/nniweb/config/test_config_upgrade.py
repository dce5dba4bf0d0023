"""``config upgrade`` on every field that NNI documents for v1 files: the v2 form means the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nniweb.experiments.config.upgrade import upgraded
from tests.nniweb.config.test_config_nni_fields import TABLE, check_all, parsed, with_value
from tests.nniweb.config.test_config_nni_fields import folder as folder


def means_the_same(config: dict[str, Any], folder: Path) -> str:
    document, _ = upgraded(json.dumps(config))
    assert "trainingServicePlatform" not in document
    before, after = parsed(config, folder), parsed(yaml.safe_dump(document, sort_keys=False), folder)
    assert (before.source_version, after.source_version) == ("v1", "v2")
    return "" if before.settings == after.settings else f"{after.settings} instead of {before.settings}"


@pytest.mark.parametrize("name", TABLE["v1"])
def test_a_file_of_every_platform_is_rewritten_without_a_change_of_meaning(name: str, folder: Path) -> None:
    assert means_the_same(TABLE["v1"][name]["base"], folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE["v1"])
def test_every_field_is_rewritten_without_a_change_of_meaning(name: str, folder: Path) -> None:
    check_all(TABLE["v1"][name], lambda row: means_the_same(with_value(row, row.value), folder))
