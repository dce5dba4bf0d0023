"""What only keepers can do is refused on a platform whose trials run without one."""

from __future__ import annotations

import pytest

from nniweb.experiments.config.settings import AlgorithmSettings, ExperimentSettings
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch.launch_checks import check_work_of_keepers
from trainingservice.local.service import LocalTrainingService


class WithoutKeepers(LocalTrainingService):
    keepers_report = False


@pytest.mark.parametrize(("asked", "field"), [
    ({"metrics": {"stdout": r"(?P<value>\S+)", "result": "value"}}, "metrics"),
    ({"keep_files": ("*.pt",)}, "keepFiles")])
def test_metrics_to_be_read_and_files_to_be_kept_need_a_keeper(asked, field) -> None:
    settings = ExperimentSettings(search_space={}, trial_command="true", trial_concurrency=1, optimize_mode="maximize",
                                  tuner=AlgorithmSettings(name="Random"), **asked)
    check_work_of_keepers(LocalTrainingService, settings)
    with pytest.raises(Refused, match="run without a keeper") as refused:
        check_work_of_keepers(WithoutKeepers, settings)
    assert [name for name, _ in refused.value.errors] == [field]
