"""The tests that need control groups with limits, in a kernel that has them; that of the tests mostly has not."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.fakes.own_kernel import run_in_own_kernel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PATIENCE = 1500.0
FOLDER = "tests/trialkeeper"
#: File -> the tests of it that are skipped where there are no such groups.
TESTS = {
    "test_kernel_limits": (
        "test_only_the_trial_that_takes_too_much_is_ended", "test_a_trial_gets_no_more_than_its_part_of_a_processor",
        "test_all_trials_together_leave_memory_to_agent_and_keepers"),
    "test_memory_limits": ("test_the_kernel_ends_a_trial_that_takes_more_than_its_memory",),
    "test_control_group": (
        "test_what_hid_ends_with_the_trial_of_a_killed_keeper[with control groups]",
        "test_what_hid_ends_also_where_the_agent_was_killed_first",
        "test_the_next_keeper_finds_what_hid_by_its_group", "test_a_group_that_nobody_finished_goes_with_the_folder",
        "test_empty_groups_that_were_left_go_when_an_agent_starts",
        "test_a_group_is_gone_after_a_trial_that_went_well", "test_all_of_many_processes_are_held",
        "test_a_process_that_was_put_into_another_group_stays_there")}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Test -> "passed", or what became of it. All are run by one kernel."""
    folder = tmp_path_factory.mktemp("kernel")
    wanted = [f"{FOLDER}/{file}.py::{name}" for file, names in TESTS.items() for name in names]
    _, output = run_in_own_kernel([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q",
                                   "--basetemp=/tmp/tests", "--junit-xml=/mnt/outcomes.xml", *wanted], folder, PATIENCE)
    assert (folder / "outcomes.xml").exists(), output[-5000:]
    return {case.attrib["name"]: "passed" if len(case) == 0 else f"{case[0].tag}: {case[0].attrib.get('message', '')}\n"
            f"{case[0].text}" for case in ET.parse(folder / "outcomes.xml").iter("testcase")}


@pytest.mark.parametrize("name", [name for names in TESTS.values() for name in names])
def test_passes_where_the_kernel_limits_control_groups(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "passed"


def test_no_test_that_needs_such_a_kernel_is_left_out() -> None:
    for path in Path(FOLDER).glob("test_*.py"):
        for line in path.read_text().splitlines():
            if line.startswith("def test_") and ("(kernel_limits" in line or "(groups" in line):
                name = line.removeprefix("def ").partition("(")[0]
                assert name in TESTS.get(path.stem, ()), f"{name} is to be run in such a kernel, too"
