"""A case of the suite that fails tells the author of a platform which rule it is about, and why there is one."""

import pytest

from trainingservice.base import ServiceContext
from trainingservice.testing.conformance import ListenerConformance, TrainingServiceConformance
from trainingservice.testing.misbehaving import DocileSettings, DocileTrainingService
from trainingservice.testing.rules import OTHERWISE, RULES, rule_of

CASES = [name for suite in (TrainingServiceConformance, ListenerConformance) for name in dir(suite)
         if name.startswith("test_")]


def test_every_case_has_a_rule_and_every_rule_a_case() -> None:
    assert sorted(RULES) == sorted(CASES)
    assert all(len(rule) > 50 and rule.endswith(".") for rule in RULES.values())
    assert rule_of("test_of_a_strangers_own") == OTHERWISE


class SwallowingService(DocileTrainingService):
    """Takes any metadata."""

    def set_cluster_metadata(self, key, value):
        return None


def test_a_case_that_fails_says_the_rule_and_one_that_passes_nothing(tmp_path) -> None:
    suite = TrainingServiceConformance()
    context = ServiceContext("c", tmp_path)
    suite.test_unknown_metadata_is_refused_and_reads_as_empty(DocileTrainingService(DocileSettings(), context))
    with pytest.raises(BaseException, match="DID NOT RAISE") as failure:
        suite.test_unknown_metadata_is_refused_and_reads_as_empty(SwallowingService(DocileSettings(), context))
    assert "A slip in a key must be told" in "".join(failure.value.__notes__)


def test_a_case_that_a_suite_of_its_own_replaces_says_it_too() -> None:
    class Own(TrainingServiceConformance):
        def test_many_jobs_at_once_each_run_once(self):
            raise AssertionError("one of them did not")

    with pytest.raises(AssertionError) as failure:
        Own().test_many_jobs_at_once_each_run_once()
    assert "in the order of submission" in "".join(failure.value.__notes__)
