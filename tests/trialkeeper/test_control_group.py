"""What a trial started is ended with it also where its keeper was killed, whatever it did to hide."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.trialkeeper.hiding_process import HIDER, hider_pid, lives
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract, control_group
from trialkeeper.control_group import ControlGroup, own_folder

#: An agent on a machine that has no control groups.
WITHOUT_GROUPS = ("-c", "from trialkeeper import agent, control_group\n"
                        "control_group._MOUNTS = '/nowhere'\nraise SystemExit(agent.Agent().run())")


@pytest.fixture(scope="module")
def groups() -> None:
    if reason := control_group.why_not():
        pytest.skip(f"no control groups can be made here: {reason}")


def group_of(attempt: KeeperRun) -> ControlGroup:
    path = attempt.folder / contract.GROUP_FILE
    return ControlGroup(wait_until(lambda: path.exists() and path.read_text(), what="the control group"))


def wait_until_held(attempt: KeeperRun, *pids: int) -> ControlGroup:
    group = group_of(attempt)
    wait_until(lambda: set(pids) <= set(group.members()), what="the trial's processes in their group")
    return group


def kill_keeper(attempt: KeeperRun) -> None:
    pid = attempt.read(contract.KEEPER_FILE)["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid), what="the end of the keeper")  # who asks at once finds it busy


def has_ended(agent, attempt: KeeperRun) -> bool:
    return agent.state(attempt.folder)["state"] == "ended"


@pytest.mark.parametrize("program", [pytest.param((), id="with control groups"),
                                     pytest.param((WITHOUT_GROUPS,), id="without")])
def test_what_hid_ends_with_the_trial_of_a_killed_keeper(
        agents, attempt, server, clean_hider, program, request) -> None:
    if not program:
        request.getfixturevalue("groups")
    agent = agents(*program)
    agent.start(attempt, attempt.python_command(HIDER) + "; sleep 60")
    hider = hider_pid(attempt)
    if not program:
        wait_until_held(attempt, hider, attempt.read(contract.TRIAL_FILE)["pid"])
    kill_keeper(attempt)
    server.wait_for(lambda: server.ended)
    assert server.ended["reason"] == "lost"
    assert server.ended["message"] == "The trial's keeper was killed while the trial ran, so the trial was ended."
    wait_until(lambda: not lives(hider), what="the end of the hiding process")
    if not program:
        wait_until(lambda: not os.path.exists(group_of(attempt).path), what="the end of the group")
    else:
        assert not attempt.exists(contract.GROUP_FILE)


def test_what_hid_ends_also_where_the_agent_was_killed_first(groups, agents, attempt, server, clean_hider) -> None:
    agent = agents()
    agent.start(attempt, attempt.python_command(HIDER) + "; sleep 60")
    hider = hider_pid(attempt)
    group = wait_until_held(attempt, hider)
    agent.kill()
    kill_keeper(attempt)
    assert lives(hider)
    agent = agents()
    agent.state(attempt.folder)
    wait_until(lambda: has_ended(agent, attempt))
    assert not lives(hider)
    assert not os.path.exists(group.path)


def test_the_next_keeper_finds_what_hid_by_its_group(groups, keeper, server, clean_hider) -> None:
    process = keeper.start(keeper.python_command(HIDER) + "; sleep 60")
    hider = hider_pid(keeper)
    group = wait_until_held(keeper, hider)
    process.kill()
    process.wait()
    assert keeper.run() == 1
    assert not lives(hider)
    assert not os.path.exists(group.path)


def test_a_group_that_nobody_finished_goes_with_the_folder(groups, agents, attempt, server, clean_hider) -> None:
    agent = agents()
    agent.start(attempt, attempt.python_command(HIDER) + "; sleep 60")
    hider = hider_pid(attempt)
    group = wait_until_held(attempt, hider)
    agent.kill()
    kill_keeper(attempt)
    (attempt.folder / contract.EXIT_FILE).write_text(json.dumps({"reason": "lost"}))  # nobody finishes it any more
    assert agents().ask("remove", folder=str(attempt.folder))["ok"]
    wait_until(lambda: not lives(hider), what="the end of the hiding process")
    assert not os.path.exists(group.path)
    assert not attempt.folder.exists()


def test_empty_groups_that_were_left_go_when_an_agent_starts(groups, agents) -> None:
    left, young = (ControlGroup(f"{own_folder()}/nniweb-trial-{name}-{os.getpid()}") for name in ("left", "young"))
    held = subprocess.Popen(["sleep", "60"])
    inhabited = ControlGroup(f"{own_folder()}/nniweb-trial-inhabited-{os.getpid()}")
    try:
        for group in (left, young, inhabited):
            group.make()
        inhabited.take_in(held.pid)
        for group in (left, inhabited):
            os.utime(group.path, (0, 0))
        agents()
        assert [os.path.exists(group.path) for group in (left, young, inhabited)] == [False, True, True]
        assert inhabited.members() == [held.pid]
    finally:
        held.kill()
        held.wait()
        for group in (left, young, inhabited):
            group.remove()


def test_a_group_is_gone_after_a_trial_that_went_well(groups, keeper, server) -> None:
    keeper.start(f"while [ ! -e {shlex.quote(str(keeper.folder))}/go ]; do sleep 0.02; done")
    group = group_of(keeper)
    wait_until(group.members)
    (keeper.folder / "go").touch()
    assert keeper.processes[0].wait(90) == 0
    assert not os.path.exists(group.path)


def test_a_short_trial_makes_no_group(keeper, server) -> None:
    assert keeper.run("true") == 0
    assert not keeper.exists(contract.GROUP_FILE)


def test_all_of_many_processes_are_held(groups, keeper, server) -> None:
    keeper.start("for i in $(seq 40); do sleep 60 & done; wait", limits={"grace_period": 20.0})
    group = group_of(keeper)
    wait_until(lambda: len(group.members()) == 41, what="41 processes in the group")
    keeper.processes[0].send_signal(signal.SIGTERM)
    assert keeper.processes[0].wait(90) in (143, 0)
    assert not os.path.exists(group.path)


def test_a_process_that_was_put_into_another_group_stays_there(groups, keeper, server, tmp_path: Path) -> None:
    other = ControlGroup(f"{own_folder()}/nniweb-test-{os.getpid()}")
    other.make()
    try:
        procs = shlex.quote(f"{other.path}/cgroup.procs")
        keeper.start(f"(echo $BASHPID > {procs}; exec sleep 60) & sleep 60 & wait")
        group = group_of(keeper)
        wait_until(lambda: len(group.members()) == 2 and len(other.members()) == 1, what="processes in both groups")
        keeper.processes[0].send_signal(signal.SIGTERM)
        assert keeper.processes[0].wait(90) in (143, 0)
        assert other.members() == []  # the living keeper ended it all the same
    finally:
        other.kill()
        other.remove()


def test_a_record_of_another_group_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / contract.GROUP_FILE).write_text("/sys/fs/cgroup/system.slice")
    assert control_group.recorded_group(str(tmp_path), "abc") is None
    (tmp_path / contract.GROUP_FILE).write_text("/sys/fs/cgroup/x/nniweb-trial-abc")
    assert control_group.recorded_group(str(tmp_path), "abd") is None
    group = control_group.recorded_group(str(tmp_path), "abc")
    assert group is not None
    assert (group.members(), group.remove()) == ([], True)  # it is long gone


@pytest.mark.parametrize(("mounts", "own", "folder"), [
    ("31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw", "/user.slice/a.scope",
     "/sys/fs/cgroup/user.slice/a.scope"),
    ("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 none rw", "/",
     "/sys/fs/cgroup/unified"),
    ("31 23 0:28 /docker/abc /mnt/a\\040b rw shared:4 - cgroup2 cgroup rw", "/docker/abc/d", "/mnt/a b/d"),
    ("31 23 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw", "/docker/xyz", None),
    ("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "/../other", None),
    ("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw", "/", None),
    ("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw", None, None),
])
def test_the_folder_of_the_own_group_follows_from_what_is_mounted(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, own: str | None, folder: str | None) -> None:
    (tmp_path / "mounts").write_text(mounts + "\n")
    monkeypatch.setattr(control_group, "_MOUNTS", str(tmp_path / "mounts"))
    monkeypatch.setattr(control_group, "control_group_of", lambda pid: own)
    assert own_folder.__wrapped__() == folder


def test_why_no_group_can_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_group, "own_folder", lambda: None)
    assert "no control groups of version 2" in control_group.why_not()
    monkeypatch.setattr(control_group, "own_folder", lambda: str(tmp_path / "missing"))
    assert control_group.why_not() == f"No control group can be used below {tmp_path}/missing " \
                                      "(No such file or directory)."
    monkeypatch.setattr(control_group, "own_folder", lambda: str(tmp_path))
    assert "No control group can be used below" in control_group.why_not()  # a folder, but no control group


def test_the_agent_tells_whether_trials_are_held(agents) -> None:
    assert agents().ask("machine")["no_control_groups"] == control_group.why_not()
    assert "no control groups" in agents(WITHOUT_GROUPS).ask("machine")["no_control_groups"]


def test_orphans_of_the_agent_are_reaped(agents, attempt, server) -> None:
    agent = agents(WITHOUT_GROUPS)
    agent.start(attempt, "sleep 60 & sleep 60")
    wait_until(lambda: attempt.exists(contract.TRIAL_FILE))
    kill_keeper(attempt)
    wait_until(lambda: has_ended(agent, attempt))

    def children() -> list[str]:
        return subprocess.run(["ps", "-o", "stat=", "--ppid", str(agent.process.pid)], stdout=subprocess.PIPE,
                              text=True, check=False).stdout.split()

    wait_until(lambda: children() == [], what="no child left, no zombie either")
