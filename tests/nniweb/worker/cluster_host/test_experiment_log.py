"""What is logged about an experiment is kept in the database; whoever logs never notices."""

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import OperationalError

from nniweb.experiments.models import ClusterMetadata, Experiment, LogLine
from nniweb.experiments.secrets.sealing import seal
from nniweb.observability.log_ids import log_ids
from nniweb.worker.cluster_host import experiment_log
from trainingservice.secrets_in_use import learn, own_secrets

logger = logging.getLogger("nniweb.worker.test")


@pytest.fixture
def experiment(transactional_db: None, make_experiment: Callable[..., Experiment]) -> Experiment:
    return make_experiment()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_log, "GATHER_SECONDS", 0.01)
    monkeypatch.setattr(experiment_log, "AWAY_SECONDS", 0.05)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The root logger's handlers are none of these tests' business."""
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(logging.NOTSET)


def lines_of(experiment: Experiment) -> list[tuple[int, str, str, str]]:
    return [(line.number, logging.getLevelName(line.level), line.source, line.message)
            for line in LogLine.objects.filter(experiment=experiment).order_by("number")]


def test_lines_are_kept_with_who_said_them_and_the_trial(experiment: Experiment) -> None:
    with experiment_log.kept():
        with log_ids(experiment=experiment.public_id):
            logger.info("experiment %s: trial %d was submitted", experiment.public_id, 3, extra={"trial": "abc"})
            logging.getLogger("trainingservice.remote").warning("the machine is away")
            try:
                raise ValueError("of a test")
            except ValueError:
                logger.exception("it failed")
        logging.getLogger("nniweb.tuning.process.tuner_child").error(
            "tuner process: oh", extra={"experiment": experiment.public_id})
        logger.error("of no experiment")
        with log_ids(experiment="nosuchthing1"):
            logger.error("of one that is gone")
    first, second, third, fourth = lines_of(experiment)
    assert first == (1, "INFO", "worker", "trial 3 was submitted")
    assert second == (2, "WARNING", "platform", "the machine is away")
    assert third[:3] == (3, "ERROR", "worker")
    assert third[3].startswith("it failed\nTraceback")
    assert third[3].endswith("ValueError: of a test")
    assert fourth == (4, "ERROR", "tuner", "oh")
    assert LogLine.objects.get(experiment=experiment, number=1).trial == "abc"


def test_secrets_of_the_work_that_a_line_is_of_are_struck_out_and_those_of_others_are_not(
        experiment: Experiment) -> None:
    ClusterMetadata.objects.create(cluster=experiment.cluster, key="password", sealed_value=seal("another word"))
    with experiment_log.kept(), log_ids(experiment=experiment.public_id):
        with own_secrets():
            learn("open sesame")
            logger.info("it said open sesame")
        with own_secrets():
            logger.info("open sesame or another word?")
        logger.info("asked https://me:tiger@host/ with Authorization: Bearer abcdefghijkl and password=cat")
    assert [line[3] for line in lines_of(experiment)] == [
        "it said ***", "open sesame or another word?",
        "asked https://me:***@host/ with Authorization: Bearer *** and password=***"]


def test_more_than_can_be_kept_is_left_out_and_counted(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_log, "BURST", 10)
    monkeypatch.setattr(experiment_log, "PER_SECOND", 0.0)
    with experiment_log.kept(), log_ids(experiment=experiment.public_id):
        for number in range(50):
            logger.info("line %d", number)
    kept = lines_of(experiment)
    assert [line[3] for line in kept if line[3].startswith("line ")] == [f"line {number}" for number in range(10)]
    told = [int(line[3].split()[0]) for line in kept if "left out here" in line[3]]
    assert sum(told) == 40


def test_of_a_long_log_the_last_lines_stay(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_log, "MOST_LINES", 20)
    with experiment_log.kept(), log_ids(experiment=experiment.public_id):
        for number in range(1, 51):
            logger.info("line %d", number)
    assert [line[0] for line in lines_of(experiment)] == list(range(31, 51))


def test_lines_wait_while_the_database_takes_nothing(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = threading.Event()
    write = experiment_log.ExperimentLog._write

    def refuse_once(log: experiment_log.ExperimentLog, *arguments: object) -> None:
        if not refused.is_set():
            refused.set()
            raise OperationalError("the disk is full")
        write(log, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(experiment_log.ExperimentLog, "_write", refuse_once)
    with experiment_log.kept(), log_ids(experiment=experiment.public_id):
        logger.info("first")
        assert refused.wait(90)
        logger.info("second")
    assert [line[3] for line in lines_of(experiment)] == ["first", "second"]


def test_lines_of_all_experiments_wait_once_while_the_database_takes_nothing(
        experiment: Experiment, make_experiment: Callable[..., Experiment], monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_experiment()
    refused = threading.Event()
    write = experiment_log.ExperimentLog._write

    def refuse_the_second(log: experiment_log.ExperimentLog, public_id: str, lines: list[object]) -> None:
        if public_id == experiment.public_id and not refused.is_set() and lines[0].message == "2":  # type: ignore[attr-defined]
            refused.set()
            raise OperationalError("the disk is full")
        write(log, public_id, lines)  # type: ignore[arg-type]

    monkeypatch.setattr(experiment_log, "CHUNK", 1)
    monkeypatch.setattr(experiment_log.ExperimentLog, "_write", refuse_the_second)
    monkeypatch.setattr(experiment_log, "GATHER_SECONDS", 0.5)
    with experiment_log.kept():
        for number in (1, 2, 3):
            for each in (experiment, other):
                with log_ids(experiment=each.public_id):
                    logger.info("%d", number)
        assert refused.wait(90)
    assert [[line[3] for line in lines_of(each)] for each in (experiment, other)] == [["1", "2", "3"]] * 2
