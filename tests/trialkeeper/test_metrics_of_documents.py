"""Metrics in files that are one JSON document, and in tables whose names do not say how their cells are separated."""

import itertools
import json
import os

import pytest

from trialkeeper.document_metrics import JsonFile
from trialkeeper.table_metrics import TableFile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


_stamps = itertools.count(1_000_000_000, 1_000_000)


def written(path, document, **how):
    """In place; it has a new time even where the clock of the disk stands still."""
    path.write_text(document if isinstance(document, str) else json.dumps(document, **how))
    os.utime(path, ns=(next(_stamps), next(_stamps)))


def reader(path, reached=None):
    def opened():
        return open(path, "rb")
    return JsonFile(opened, "file", reached, lambda: TableFile(opened, str(path), "file", reached))


def table(path):
    def opened():
        return open(path, "rb")
    return TableFile(opened, path.name, "file", None)


def values(source, final=False):
    return [(measured.values, measured.step) for measured in source.read(final)]


@pytest.mark.parametrize("indent", [None, 4])
def test_an_object_is_one_result_and_another_one_in_its_place_is_the_next(path, indent):
    source = reader(path)
    assert values(source) == []
    written(path, {"epoch": 1, "eval": {"acc": 0.5}}, indent=indent)
    assert values(source, final=indent is None) == [({"eval.acc": 0.5}, 1)]
    assert values(source) == []
    written(path, {"epoch": 2, "eval": {"acc": 0.75}}, indent=indent)
    assert values(source, final=indent is None) == [({"eval.acc": 0.75}, 2)]


def test_a_document_that_is_being_written_is_read_when_it_is_whole(path):
    text = json.dumps([{"step": 1, "loss": 3}, {"step": 2, "loss": 2}], indent=1)
    source = reader(path)
    for end in (0, 1, 20, len(text) - 1):
        written(path, text[:end])
        assert values(source) == []
    written(path, text)
    assert values(source) == [({"loss": 3}, 1), ({"loss": 2}, 2)]


def test_a_list_that_grows_has_each_of_its_objects_once(path):
    source, rows = reader(path), [{"step": number, "loss": number} for number in range(4)]
    for count, new in ((1, [0]), (3, [1, 2]), (3, []), (4, [3])):
        written(path, rows[:count])
        found = source.read()
        assert [measured.step for measured in found] == new
        if new:
            position = json.loads(json.dumps(found[-1].position))
    again = reader(path, position)
    assert again.read(final=True) == []
    written(path, rows[2:])
    assert [measured.step for measured in again.read()] == [2, 3], "it has begun anew"


def test_lists_under_names_are_a_row_for_each_place(path):
    written(path, {"loss": [3, 2], "acc": [0.1, 0.2]}, indent=1)
    assert values(reader(path)) == [({"loss": 3, "acc": 0.1}, 0), ({"loss": 2, "acc": 0.2}, 1)]
    written(path, {"epoch": [5], "acc": [0.1]}, indent=1)
    assert values(reader(path)) == [({"acc": 0.1}, 5)]


def test_json_lines_in_such_a_file_are_read_as_they_come(path):
    source = reader(path)
    written(path, '{"step": 1, "loss": 3}\n')
    found = source.read()
    assert [measured.step for measured in found] == [1]
    written(path, '{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n{"step": 3')
    assert values(source) == [({"loss": 2}, 2)]
    again = reader(path, json.loads(json.dumps(found[-1].position)))
    assert values(again, final=True) == [({"loss": 2}, 2)]


@pytest.mark.parametrize("text", ["", "[", "7", "[1, 2]", "null", "{\n", "[" * 100_000, '{"a":\n["x"]}', "{\n}"])
def test_what_has_no_metrics_is_none(path, text):
    written(path, text)
    assert values(reader(path), final=True) == []


@pytest.mark.parametrize(("name", "text"), [
    ("progress.txt", "Epoch\tLoss/train\n1\t0.5\n"), ("log", "Epoch,Loss/train\n1,0.5\n"),
    ("a.csv", "Epoch;Loss/train\n1;0.5\n"), ("a.csv", "Epoch\tLoss/train\n1\t0.5\n"),
    ("a.tsv", "Epoch,Loss/train\n1,0.5\n"), ("a.csv", ",Epoch,Loss/train\n0,1,0.5\n")])
def test_the_first_line_says_how_cells_are_separated(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    [row] = table(path).read()
    assert row.values == {"Epoch": 1, "Loss/train": 0.5}


@pytest.mark.parametrize("first", ["Starting, please wait", "loading model.bin", "a, b, c", "x", '{"step": 0}',
                                   "1 2 3"])
def test_other_texts_are_lines_that_may_be_json(tmp_path, first):
    path = tmp_path / "log.txt"
    path.write_text(first + '\n{"step": 1, "loss": 0.5}\n')
    assert [row.values for row in table(path).read()] == [{"loss": 0.5}]
