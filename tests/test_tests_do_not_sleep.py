"""Tests wait for what they need, with a deadline. Where one sleeps, the place and the reason are listed here."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parent
POLLS = "polls with a deadline"
PROGRAM = "a double or a program of a test that is slow on purpose"
BEHAVIOUR = "the time that passes is what the test is about"
ABSENCE = "gives an agent in another process time for what must not happen"
#: File and innermost function: why it may call ``time.sleep``.
ALLOWED: dict[tuple[str, str], str] = {
    ("end_to_end/browser/test_malicious_trial.py", "flood_and_listen"): POLLS,
    ("end_to_end/kill_table/power_cut.py", "unmount"): POLLS,
    ("end_to_end/kill_table/test_start_under_faults.py", "remove"): POLLS,
    ("end_to_end/running_server.py", "close"): POLLS,
    ("end_to_end/running_server.py", "wait_until"): POLLS,
    ("end_to_end/scaled_out/postgresql_server.py", "start"): POLLS,
    ("end_to_end/scaled_out/postgresql_server.py", "kill"): POLLS,
    ("end_to_end/scaled_out/redis_server.py", "start"): POLLS,
    ("end_to_end/scaled_out/several_processes.py", "close"): POLLS,
    ("end_to_end/scaled_out/test_servers_come_and_go.py",
     "test_nothing_is_lost_while_postgresql_and_redis_are_away"): BEHAVIOUR,
    ("fakes/kubernetes/node.py", "_run_container"): PROGRAM,
    ("fakes/nvidia_smi.py", "main"): PROGRAM,
    ("fakes/ray_head.py", "stop"): POLLS,
    ("fakes/ray_head.py", "wait"): POLLS,
    ("fakes/schedulers/daemons.py", "wait"): POLLS,
    ("fakes/scripted_keeper_server.py", "handle"): PROGRAM,
    ("fakes/slurm_cluster.py", "wait"): POLLS,
    ("fakes/ssh_machine.py", "start"): POLLS,
    ("nniweb/api/clusters/test_api_stuck_platforms.py", "is_soon"): POLLS,
    ("nniweb/keeperapi/keeper_server.py", "__init__"): POLLS,
    ("nniweb/startup/test_server_opening.py", "until"): POLLS,
    ("nniweb/tuning/process/misbehaving_tuner_process.py", "propose"): PROGRAM,
    ("nniweb/web_server/conftest.py", "wait_until"): POLLS,
    ("nniweb/web_server/test_slow_and_many.py", "test_a_slow_but_steady_body_has_its_time"): BEHAVIOUR,
    ("nniweb/web_server/test_slow_and_many.py", "test_the_pause_between_two_requests_has_its_own_time"): BEHAVIOUR,
    ("nniweb/web_server/test_slow_and_many.py", "test_a_reader_of_a_large_answer_has_its_time"): BEHAVIOUR,
    ("nniweb/worker/conftest.py", "wait_for_job"): POLLS,
    ("nniweb/worker/notifications/test_notification_sender.py", "until"): POLLS,
    ("nniweb/worker/test_supervisor.py", "until"): POLLS,
    ("trainingservice/local/test_local_service.py",
     "test_a_job_is_handed_over_within_moments_of_its_submission"): BEHAVIOUR,
    ("trainingservice/local/test_run_as.py", "user"): POLLS,
    ("trainingservice/remote/test_remote_broken_connections.py",
     "test_eight_trials_that_report_through_the_connection_outlast_a_minute_without_it"): BEHAVIOUR,
    ("trialkeeper/keeper_run.py", "wait_until"): POLLS,
    ("trialkeeper/test_keeper_short_of_threads.py",
     "test_an_attempt_that_had_given_way_is_begun_by_the_next_agent_and_not_where_it_was_cancelled"): ABSENCE,
    ("trialkeeper/test_keeper_short_of_threads.py",
     "test_the_end_of_a_killed_keeper_is_told_once_a_process_can_be_forked"): ABSENCE,
}


def sleeps(path: Path) -> Iterator[str]:
    """The innermost function around each call of ``time.sleep``; empty at the level of the module."""
    text = path.read_text()
    if "sleep" not in text:  # three quarters of the files: what a file does not name it does not call
        return iter(())
    tree = ast.parse(text)
    names = {alias.asname or alias.name for node in ast.walk(tree)
             if isinstance(node, ast.ImportFrom) and node.module == "time"
             for alias in node.names if alias.name == "sleep"}

    def within(node: ast.AST, function: str) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and (ast.unparse(node.func) == "time.sleep"
                                           or isinstance(node.func, ast.Name) and node.func.id in names):
            yield function
        for child in ast.iter_child_nodes(node):
            yield from within(child, function)

    return within(tree, "")


def test_a_test_that_sleeps_is_listed_with_its_reason() -> None:
    found = {(str(path.relative_to(TESTS)), function) for path in TESTS.rglob("*.py") for function in sleeps(path)}
    assert found - ALLOWED.keys() == set(), (
        "wait for an event, or with wait_until of tests/trialkeeper/keeper_run.py: a sleep that is long enough here is "
        "too short on a busy machine")
    assert ALLOWED.keys() - found == set(), "these no longer sleep: take them off the list"


def test_calls_under_either_name_are_found_and_text_is_not(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        "import time\nfrom time import sleep as rest\nTRIAL = 'time.sleep(1)'\ntime.sleep(1)\n"
        "def outer():\n    def inner():\n        rest(1)\n    time.sleep(2)\n    await_later(time.sleep)\n")
    assert sorted(sleeps(tmp_path / "one.py")) == ["", "inner", "outer"]
