"""The field warmStart."""

from __future__ import annotations

import pytest

from nniweb.experiments.config.parsing import parse_experiment_config
from nniweb.experiments.config.resolved import resolved_document
from tests.nniweb.config.test_config_wrong_kinds import BASE, SPACE, refused


@pytest.mark.parametrize(("written", "read", "resolved"), [
    ("true", True, True), ("false", False, None), ("null", False, None), ("[]", (), []),
    ("[torch]", ("torch",), ["torch"]),
    ("[sklearn.svm, numpy, _io]", ("sklearn.svm", "numpy", "_io"), ["sklearn.svm", "numpy", "_io"])])
def test_it_is_a_switch_or_a_list_of_modules(tmp_path, written, read, resolved):
    settings = parse_experiment_config(f"{BASE}{SPACE}warmStart: {written}", tmp_path).settings
    assert settings.warm_start == read
    assert resolved_document(settings).get("warmStart") == resolved


@pytest.mark.parametrize("written", ["['a b']", "['../x']", "['os; x']", "[1]", "{}", "'yes please'", "[.x]"])
def test_a_wrong_value_names_the_field(tmp_path, written):
    assert refused(f"warmStart: {written}", tmp_path).startswith("warmStart")
