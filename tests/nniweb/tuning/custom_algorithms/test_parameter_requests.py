"""Which classes of the user's own can give a running trial further parameters."""

from pathlib import Path

import pytest

from nniweb.tuning.custom_algorithms.loading import load_own
from nniweb.tuning.custom_algorithms.parameter_requests import gives_one_set_only, takes_trial_job_id

CLASSES = '''
import functools
from nni.tuner import Tuner
from nni.msg_dispatcher_base import MsgDispatcherBase

class WithKwargs(Tuner):
    def generate_parameters(self, parameter_id, **kwargs): ...

class WithName(Tuner):
    def generate_parameters(self, parameter_id, trial_job_id=None): ...

class Inherits(WithKwargs):
    pass

class OneSet(Tuner):
    def generate_parameters(self, parameter_id): ...

class InheritsOneSet(OneSet):
    pass

class Several(Tuner):
    def generate_multiple_parameters(self, ids, **kwargs): ...

class Decorated(Tuner):
    @functools.lru_cache
    def generate_parameters(self, parameter_id, trial_job_id=None): ...

class Advisor(MsgDispatcherBase):
    def handle_request_trial_jobs(self, data): ...
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "classes_that_are_asked.py").write_text(CLASSES)
    return tmp_path


@pytest.mark.parametrize(("name", "takes", "shows_that_not"), [
    ("WithKwargs", True, False), ("WithName", True, False), ("Inherits", True, False), ("OneSet", False, True),
    ("InheritsOneSet", False, True), ("Several", False, False), ("Decorated", True, False), ("Advisor", True, False)])
def test_a_class_is_looked_at_as_text_and_when_it_is_loaded(folder: Path, name: str, takes: bool, shows_that_not: bool
                                                            ) -> None:
    full = f"classes_that_are_asked.{name}"
    found = load_own("tuner", {"class_name": full, "code_directory": str(folder)},
                     ["generate_parameters", "handle_request_trial_jobs"])
    assert takes_trial_job_id(found) is takes
    assert gives_one_set_only(folder, full) is shows_that_not


@pytest.mark.parametrize("text", ["def (", "\0", "(" * 5000, "x = 1"])
def test_text_that_shows_nothing_is_left_to_the_classs_own_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.py").write_text(text)
    assert gives_one_set_only(tmp_path, "odd.Mine") is False
    assert gives_one_set_only(tmp_path, "nowhere.Mine") is False
