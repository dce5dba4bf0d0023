"""Which failures are equal."""

import pytest

from nniweb.experiments.failure_key import failure_key
from trainingservice.reasons import Reason


def key(reason: Reason) -> str:
    return failure_key(str(reason), reason.code, reason.arguments)


def ended(last_words: str, exit_code: int = 1) -> str:
    return key(Reason("exit_code", exit_code=exit_code, last_words=last_words))


def test_sizes_addresses_and_folders_of_a_trial_make_no_difference() -> None:
    assert ended("CUDA out of memory. Tried to allocate 2.00 GiB") \
        == ended("CUDA out of memory. Tried to allocate 11.50 GiB")
    assert ended("No such file: '/tmp/trials/a1b2c3/x.json'") == ended("No such file: '/tmp/trials/z9y8x7/x.json'")


@pytest.mark.parametrize("other", [
    ended("ModuleNotFoundError: No module named 'numpy'"), ended("ModuleNotFoundError: No module named 'torch'", 2),
    ended(""), key(Reason("time_limit"))])
def test_other_words_another_exit_code_or_another_reason_make_one(other: str) -> None:
    assert ended("ModuleNotFoundError: No module named 'torch'") != other
