"""An experiment whose trials write down themselves what they did, and the comparison with what the server knows.

What a trial writes is the second account that a database cannot give: what was not stored is not in it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from nniweb.tuning.algorithms import build_tuner
from nniweb.tuning.search_space.parser import parse_search_space
from tests.end_to_end.running_server import RunningServer
from trainingservice.testing.processes import processes_of
from trialkeeper import machine

SEARCH_SPACE = {"x": {"_type": "uniform", "_value": [0, 1]}, "kind": {"_type": "choice", "_value": ["a", "b", "c"]}}
SEED = 7
#: Of TPE the fourth question already depends on the results before; asked one at a time, in one way only.
CLASS_ARGS: dict[str, dict[str, Any]] = {"Random": {"seed": SEED},
                                         "TPE": {"optimize_mode": "maximize", "seed": SEED,
                                                 "tpe_args": {"n_startup_jobs": 3}}}

#: argv: folder of the witnesses, intermediate results, seconds between two, a file to wait for at the end ("": none),
#: and "learns" where others are started warm with what it has loaded, which is looked at when the interpreter ends.
TRIAL = """\
import atexit, json, os, sys, time
atexit.register(lambda: end())  # the last of all: on a busy machine what others do at the end takes a second
import nni

folder, steps, pause, go = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
is_done = False
witness = open(os.path.join(folder, nni.get_trial_id() + ".jsonl"), "a")
born = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
age = open(os.path.join(folder + "-ages", nni.get_trial_id()), "a")

def live():
    age.seek(0)
    age.truncate()
    age.write("%.2f\\n" % (float(open("/proc/uptime").read().split()[0]) - born))
    age.flush()

def end():
    live()
    if is_done and "learns" not in sys.argv[5:]:
        os._exit(0)  # nor does the interpreter take apart what it has, which takes a second, too

def write(**what):
    witness.write(json.dumps(what) + "\\n")
    witness.flush()
    live()

write(what="start", pid=os.getpid())
parameters = nni.get_next_parameter()
write(what="parameters", value=parameters)
for step in range(steps):
    value = parameters["x"] + step
    nni.report_intermediate_result(value)
    write(what="reported", value=value)
    time.sleep(pause)
while go and not os.path.exists(go):
    live()
    time.sleep(0.05)
nni.report_final_result(parameters["x"])
write(what="final", value=parameters["x"])
is_done = True
"""


def parent_of(pid: int) -> int:
    """The process that started this one, or has inherited it; 0 where it has ended."""
    stat = machine.process_stat(pid)
    return int(stat[1][1]) if stat is not None else 0


class WitnessedExperiment:
    """One experiment on one server. Give the numbers, ``launch``, disturb it, then ``nothing_is_lost``."""

    def __init__(self, server: RunningServer, folder: Path, *, trials: int = 8, concurrency: int = 4, steps: int = 20,
                 pause: float = 0.02, tuner: str = "Random", go: Path | None = None,
                 platform: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.server, self.trials, self.steps, self.tuner = server, trials, steps, tuner
        self.witnesses = folder / "witnesses"
        self.witnesses.mkdir(parents=True)
        self.ages = folder / "witnesses-ages"
        self.ages.mkdir()
        code = folder / "code"
        code.mkdir()
        (code / "trial.py").write_text(TRIAL)
        self._code = code
        learns = " learns" if more.get("warmStart") else ""
        self._config = {
            "trialCommand": f"python3 trial.py '{self.witnesses}' {steps} {pause} '{go or ''}'{learns}",
            "trialCodeDirectory": str(code), "trialConcurrency": concurrency, "maxTrialNumber": trials,
            "searchSpace": SEARCH_SPACE, "tuner": {"name": tuner, "classArgs": CLASS_ARGS[tuner]},
            "trainingService": dict(platform or {"platform": "local"}), **more}
        self.id = ""

    def launch(self) -> WitnessedExperiment:
        self.id = self.server.launch(self._config, self._code)
        return self

    # --- looking ---------------------------------------------------------------------------

    def rows(self) -> list[dict[str, Any]]:
        """The trials as the server has them, in order of sequence id."""
        return sorted(self.server.get_all(f"experiments/{self.id}/trials/"), key=lambda row: row["sequence_id"])

    def running(self) -> list[dict[str, Any]]:
        return [row for row in self.rows() if row["status"] == "RUNNING"]

    def witness(self, trial_id: str) -> list[dict[str, Any]]:
        """What the trial wrote; nothing where it never ran."""
        file = self.witnesses / f"{trial_id}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def pid_of(self, row: Mapping[str, Any]) -> int:
        """The process of a trial that has begun."""
        return int(next(line["pid"] for line in self.witness(row["id"]) if line["what"] == "start"))

    def begun(self) -> int:
        """Trials that have begun, whether the server knows or not."""
        return len(list(self.witnesses.iterdir()))

    def reported(self) -> int:
        """Results the trials have reported, whether the server knows or not."""
        return sum(line["what"] == "reported" for file in self.witnesses.iterdir()
                   for line in self.witness(file.stem))

    # --- judging ---------------------------------------------------------------------------

    def nothing_is_lost(self, *, ended: Mapping[int, str] | None = None, patience: float = 120.0) -> None:
        """Wait for DONE, then hold the server's account against the trials' own.

        ``ended``: sequence id -> status of trials that were ended on purpose; all that they reported is there, too.
        """
        self.server.wait_for_experiment(self.id, patience=patience)
        rows, ended = self.rows(), ended or {}
        assert [row["sequence_id"] for row in rows] == list(range(self.trials)), "no trial lost, none twice"
        assert [row["status"] for row in rows] == [ended.get(row["sequence_id"], "SUCCEEDED") for row in rows], rows
        for row in rows:
            self._compare(row, killed=row["sequence_id"] in ended)
        self.server.wait_until(lambda: not self._left(), 60, "no process is left")
        assert self._unfinished_attempts() == 0, "no slot leaked"
        self.ledger_agrees(rows)
        self._same_tuner_state(rows)

    def _compare(self, row: Mapping[str, Any], *, killed: bool) -> None:
        own = self.witness(row["id"])
        starts = [line for line in own if line["what"] == "start"]
        assert len(starts) == 1, f"trial {row['sequence_id']} was started {len(starts)} times"
        [parameters] = [line["value"] for line in own if line["what"] == "parameters"]
        assert parameters == row["parameters"]
        metrics = self.server.get_all(f"trials/{row['id']}/metrics/")
        stored = [metric["number"] for metric in metrics if metric["kind"] == "PERIODICAL"]
        reported = [line["value"] for line in own if line["what"] == "reported"]
        if killed:  # it may have been killed between a report and its own note of it
            assert stored[:len(reported)] == reported
            assert len(stored) <= len(reported) + 1
            return
        assert len(reported) == self.steps
        history = self.server.get_all(f"trials/{row['id']}/events/") if stored != reported else []
        assert stored == reported, ("no metric lost, none twice, in their order: of the steps there are "
                                    f"{[round(value - row['parameters']['x']) for value in stored]}\n{row}\n{history}")
        assert [metric["number"] for metric in metrics if metric["kind"] == "FINAL"] == [row["parameters"]["x"]]
        assert row["final_number"] == row["parameters"]["x"]

    def ledger_agrees(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """The ledger has each attempt once, and the time of each trial as the trial's own file says, within a second.

        Where a platform has no keepers nobody measures: then it is no less than that, and no more than the server saw.
        """
        told = self._query("SELECT trial, job_name, milliseconds, measured_by FROM experiments_ledgerentry "
                           "WHERE experiment = ? ORDER BY id", self.id)
        attempts = self._query(
            "SELECT job_name FROM experiments_attempt JOIN experiments_trial ON trial_id = experiments_trial.id "
            "JOIN experiments_experiment ON experiment_id = experiments_experiment.id "
            "WHERE experiments_experiment.public_id = ?", self.id)
        assert sorted(name for _, name, *_ in told) == sorted(name for name, in attempts), "each attempt once"
        charged = {row["id"]: sum(milliseconds for trial, _, milliseconds, _ in told if trial == row["id"]) / 1000
                   for row in rows}
        own = {row["id"]: self.age(row["id"]) for row in rows}
        seen = {} if self.has_keepers else {row["id"]: (datetime.fromisoformat(
            row["ended_at"]) - datetime.fromisoformat(row["started_at"])).total_seconds() for row in rows}
        wrong = {trial: (charged[trial], own[trial], [row for row in told if row[0] == trial])
                 for trial in charged
                 if not own[trial] - 1.0 <= charged[trial] <= max(own[trial], seen.get(trial, 0.0)) + 1.0}
        assert not wrong, f"seconds in the ledger, seconds by the trial's own file: {wrong}"

    @property
    def has_keepers(self) -> bool:
        """False of the services of tests that run trials without any."""
        return self._config["trainingService"]["platform"] not in ("returning", "small")

    def age(self, trial_id: str) -> float:
        """Seconds that the trial ran, by its last note of it; 0 where it never did."""
        file = self.ages / trial_id
        return float(file.read_text() or 0) if file.exists() else 0.0

    def _left(self) -> list[str]:
        """Processes of its trials and keepers, and tuners of servers that are no more."""
        ids = [row["id"] for row in self.rows()]
        left = processes_of([str(self.witnesses), *ids])
        processes = self.server.processes()
        tuners = [process for process in processes if "tuner_process" in process.command]
        # a worker that lives has one; that of a worker that died ends with it
        tuners_of = {process.pid: 0 for process in processes if process not in tuners}
        for tuner in tuners:
            parent = parent_of(tuner.pid)
            tuners_of[parent] = tuners_of.get(parent, 1) + 1
            if tuners_of[parent] > 1:
                left.append(tuner)
        return [f"{process.pid} {process.command[:120]}" for process in left]

    def _unfinished_attempts(self) -> int:
        [(count,)] = self._query(
            "SELECT count(*) FROM experiments_attempt JOIN experiments_trial ON trial_id = experiments_trial.id "
            "JOIN experiments_experiment ON experiment_id = experiments_experiment.id "
            "WHERE stage <> 'ended' AND experiments_experiment.public_id = ?", self.id)
        return int(count)

    def _same_tuner_state(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """The recorded history has each question and each answer once, and the tuner gives the same answers again."""
        events = [json.loads(row[0]) if isinstance(row[0], str) else row[0] for row in self._query(
            "SELECT data FROM experiments_tunerevent WHERE experiment_id = "
            "(SELECT id FROM experiments_experiment WHERE public_id = ?) ORDER BY id", self.id)]
        asks = [event for event in events if event["event"] == "ask"]
        tells = [event for event in events if event["event"] == "tell"]
        assert [event["number"] for event in asks] == list(range(self.trials))
        assert [event["parameters"] for event in asks] == [row["parameters"] for row in rows]
        assert sorted(event["number"] for event in tells) == list(range(self.trials)), "each end was told once"
        space = parse_search_space(SEARCH_SPACE)
        undisturbed = build_tuner(self.tuner, CLASS_ARGS[self.tuner], space, "maximize", SEED)
        for event in events:
            if event["event"] == "ask":
                assert undisturbed.ask(event["number"]) == event["parameters"], "as it would have been undisturbed"
            elif event["event"] == "tell":
                undisturbed.tell(event["number"], event["parameters"], event["value"], event["status"])

    def _query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """From the database itself."""
        if url := self.server.environment.get("NNIWEB_DATABASE_URL"):
            with psycopg.connect("postgresql" + url.removeprefix("postgres")) as connection:
                return connection.execute(sql.replace("?", "%s").encode(), values).fetchall()
        with closing(sqlite3.connect(f"file:{self.server.data_folder}/nniweb.sqlite3?mode=ro", uri=True)) as database:
            return database.execute(sql, values).fetchall()
