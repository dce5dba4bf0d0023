"""A trial that is told to save a checkpoint and end: by an order, or because its keeper is told to end."""

from __future__ import annotations

import signal
from typing import Any

from tests.fakes.scripted_keeper_server import ScriptedKeeperServer
from tests.trialkeeper.keeper_run import KeeperRun, wait_until
from trialkeeper import contract

FREEZE: dict[str, Any] = {"order": contract.ORDER_FREEZE, "reason": "frozen by a test"}
STOP: dict[str, Any] = {"order": contract.ORDER_STOP, "reason": "stopped by a test"}

#: Saves a checkpoint when it hears the signal, and ends then; leaves a file when it can hear it.
SAVES = """
import nni, pathlib, signal, sys, time
nni.get_next_parameter()
def save(number, frame):
    time.sleep(%f)
    with nni.save_checkpoint(step=4) as path:
        open(path, "w").write("four")
    sys.exit(0)
signal.signal(signal.SIG%s, save)
pathlib.Path("ready").touch()
time.sleep(600)
"""
#: Goes on whatever it is told.
STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("ready").touch()
time.sleep(60)
"""


def kept(grace: float, signal_name: str = "TERM") -> dict[str, Any]:
    return {"max_bytes": 2 ** 30, "bytes_per_second": None, "resume": [], "grace": grace, "signal": signal_name}


def started(keeper: KeeperRun, code: str, **fields: Any) -> Any:
    process = keeper.start(keeper.python_command(code), limits={"report_interval": 0.2, "grace_period": 0.3}, **fields)
    wait_until(lambda: keeper.exists(f"{contract.CODE_FOLDER}/ready"))
    return process


def test_an_order_to_freeze_sends_the_signal_of_choice_and_what_the_trial_saved_then(
        keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    process = started(keeper, SAVES % (0.0, "USR1"), checkpoints=kept(20, "USR1"))
    server.orders.append(FREEZE)
    assert process.wait(90) == 0
    saved, = [entry for entry in server.checkpoints if entry["event"] == "saved"]
    assert (saved["step"], server.content_of(saved)) == (4, {"": b"four"})
    assert (server.ended["reason"], server.ended["exit_code"]) == (contract.FROZEN, 0)
    assert server.ended["message"] == "frozen by a test"


def test_a_trial_has_the_grace_for_checkpoints_to_save_one_and_is_killed_after_it(
        keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    process = started(keeper, SAVES % (1.0, "TERM"), checkpoints=kept(20))  # longer than the other grace period
    server.orders.append(FREEZE)
    assert process.wait(90) == 0
    assert [entry["step"] for entry in server.checkpoints if entry["event"] == "saved"] == [4]


def test_one_that_does_not_end_is_killed_after_the_grace(keeper: KeeperRun, server: ScriptedKeeperServer) -> None:
    process = started(keeper, STUBBORN, checkpoints=kept(0.5))
    server.orders.append(FREEZE)
    assert process.wait(90) == 137
    assert (server.ended["reason"], server.ended["signal"]) == (contract.FROZEN, 9)


def test_a_stop_that_is_ordered_meanwhile_ends_it_sooner_and_counts(keeper: KeeperRun, server: ScriptedKeeperServer
                                                                    ) -> None:
    process = started(keeper, STUBBORN, checkpoints=kept(3600))
    server.orders.append(FREEZE)
    wait_until(lambda: "is being frozen" in keeper.log())
    server.orders[:] = [STOP]
    assert process.wait(90) == 137
    assert server.ended["reason"] == contract.STOPPED


def test_a_keeper_that_is_told_to_end_gives_its_trial_the_same_time(keeper: KeeperRun, server: ScriptedKeeperServer
                                                                    ) -> None:
    process = started(keeper, SAVES % (1.0, "TERM"), checkpoints=kept(20))
    process.send_signal(signal.SIGTERM)
    process.wait(90)
    assert [entry["step"] for entry in server.checkpoints if entry["event"] == "saved"] == [4]
    assert server.ended["reason"] == contract.STOPPED


def test_a_trial_without_checkpoints_is_ended_within_its_grace_period(keeper: KeeperRun, server: ScriptedKeeperServer
                                                                      ) -> None:
    process = started(keeper, STUBBORN)
    server.orders.append(FREEZE)
    assert process.wait(90) == 137, "it was killed long before it would have ended"
    assert server.ended["reason"] == contract.FROZEN
