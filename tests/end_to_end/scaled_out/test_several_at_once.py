"""Two webs and two workers on PostgreSQL and Redis: each cluster is driven by exactly one, and any of them may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.scaled_out.gated_trials import GatedTrials
from tests.end_to_end.scaled_out.several_processes import Installation, WebProcess, WorkerProcess, is_traceback_free
from tests.end_to_end.scaled_out.watched_page import watched_experiment

TRIALS = 2


def launch(web: WebProcess, folder: Path) -> tuple[str, GatedTrials]:
    """An experiment on a cluster of its own that any worker may drive."""
    gated = GatedTrials(folder)
    service = {"platform": "scripted_anywhere", "folder": str(folder / "cluster")}
    return web.launch(gated.config(service, trials=TRIALS), gated.code), gated


def everything_is_there_once(installation: Installation, web: WebProcess, experiment: str, gated: GatedTrials,
                             steps: int) -> None:
    """The experiment ended well: each trial ran once, each metric is stored once."""
    web.wait_for_experiment(experiment)
    trials = web.get_all(f"experiments/{experiment}/trials/")
    assert [trial["status"] for trial in trials] == ["SUCCEEDED"] * TRIALS
    assert gated.starts() == sorted(trial["id"] for trial in trials), "each was started once"
    for trial in trials:
        x = trial["parameters"]["x"]
        rows = web.get_all(f"trials/{trial['id']}/metrics/")
        assert [row["number"] for row in rows if row["kind"] == "PERIODICAL"] == \
            pytest.approx([x + step for step in range(steps)])
        assert [row["number"] for row in rows if row["kind"] == "FINAL"] == pytest.approx([x])


@pytest.mark.timeout(300)
@pytest.mark.kill_table("TERM of one of two workers, then kill -9 of the other (PostgreSQL, Redis, two webs)")
def test_clusters_spread_and_are_handed_over_and_taken_over_while_trials_run(installation: Installation,
                                                                            tmp_path: Path, seed: int) -> None:
    web, other_web = installation.web("web1").start(), installation.web("web2").start()
    one, two = installation.worker("worker1").start(), installation.worker("worker2").start()
    web.wait_until(lambda: len(installation.rows("SELECT id FROM experiments_worker")) == 2, what="both are there")
    ids = {installation.worker_id(one), installation.worker_id(two)}
    # one after the other: who drives fewer takes the next one, unless it is too busy for some seconds
    launched: list[tuple[str, GatedTrials]] = []
    while len(launched) < 2 or (set(installation.holders().values()) != ids and len(launched) < 5):
        where = (web, other_web)[len(launched) % 2]
        launched.append(launch(where, tmp_path / f"experiment{len(launched)}"))
        web.wait_until(lambda: len(installation.holders()) == len(launched), what="somebody drives it")
    assert set(installation.holders().values()) == ids, "each drives some"

    def all_driven_by(worker: WorkerProcess) -> bool:
        return list(installation.holders().values()) == [installation.worker_id(worker)] * len(launched)
    for experiment, gated in launched:
        web.wait_until(lambda gated=gated: len(gated.starts()) == TRIALS, what="its trials run")
        # keepers report to the first web, the page is open at the second
        with watched_experiment(other_web, experiment) as page:
            page.hear_until(lambda page=page: len(page.trials) == TRIALS)
            gated.step(0)
            page.hear_until(lambda page=page: [trial["intermediate_count"] for trial in page.trials.values()]
                            == [1] * TRIALS)

    # a clean stop hands everything over, and not because the lease ran out
    gone = installation.worker_id(one)
    assert one.stop() == 0
    web.wait_until(lambda: all_driven_by(two), what="the other one drives all")
    assert installation.rows("SELECT id FROM experiments_worker WHERE id = %s", gone) == []

    # one that is killed hands nothing over: it is replaced
    one.start()
    killed = installation.worker_id(two)
    two.kill()
    web.wait_until(lambda: all_driven_by(one), what="the clusters of the killed one are taken over")
    assert killed not in installation.holders().values()
    for experiment, gated in launched:
        gated.step(1)
        gated.let_go()
        everything_is_there_once(installation, web, experiment, gated, steps=2)
    for process in (web, other_web, one, two):
        assert is_traceback_free(process.log()), process.log()
