"""Scalars in TensorBoard's event files."""

import io
import json
import random
import struct

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util import tensor_util

from tests.trialkeeper.keeper_run import wait_until
from trialkeeper.event_files import EventFile, masked_checksum

TAGS = ["loss", "validation/acc"]


def record(*values, step=1):
    """An event with these (tag, number, kind), as TensorBoard's own writers make it."""
    summary = Summary()
    for tag, number, kind in values:
        value = summary.value.add(tag=tag)
        if kind == "simple":
            value.simple_value = number
        elif kind == "fields":
            value.tensor.CopyFrom(TensorProto(dtype=1, float_val=[number]))
        elif kind == "doubles":
            value.tensor.CopyFrom(TensorProto(dtype=2, double_val=[number]))
        elif kind == "whole":
            value.tensor.CopyFrom(TensorProto(dtype=9, int64_val=[number]))
        else:
            value.tensor.CopyFrom(tensor_util.make_tensor_proto(number, dtype=kind))
    return Event(step=step, wall_time=1.0, summary=summary).SerializeToString()


def framed(*events):
    stream = io.BytesIO()
    writer = RecordWriter(stream)
    for event in events:
        writer.write(event)
    writer.flush()
    return stream.getvalue()


def reader(path, name="events.out.tfevents.1", tags=TAGS, position=0):
    return EventFile(lambda: open(path, "rb"), "events", name, tags, position)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.out.tfevents.1"


def test_the_checksum_is_the_one_of_the_field():
    assert masked_checksum(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize(("number", "kind"), [
    (0.25, "simple"), (0.25, "fields"), (0.25, "doubles"), (0.1, "float64"), (0.25, "float32"), (7, "whole"),
    (-7, "whole"), (3, "int64"), (3, "int32"), (-1.5, "simple")])
def test_values_are_read_in_each_form_that_writers_have(path, number, kind):
    path.write_bytes(framed(record(("loss", number, kind), step=2**40)))
    [measured] = reader(path).read()
    assert (measured.values, measured.step) == ({"loss": number}, 2**40)


def test_what_was_not_asked_for_and_what_is_no_scalar_is_left_out(path):
    histogram = Summary(value=[Summary.Value(tag="loss", tensor=tensor_util.make_tensor_proto([1.0, 2.0]))])
    path.write_bytes(framed(Event(file_version="brain.Event:2").SerializeToString(), record(("other", 1, "simple")),
                            Event(step=1, summary=histogram).SerializeToString(),
                            record(("loss", 1, "simple"), ("acc", 2, "simple"), ("x/loss", 3, "simple"))))
    assert [measured.values for measured in reader(path).read()] == [{"loss": 1}]


@pytest.mark.parametrize(("name", "tag", "asked", "found"), [
    ("validation/e", "acc", "validation/acc", True), ("tb/validation/e", "acc", "validation/acc", True),
    ("train/e", "acc", "validation/acc", False), ("train/e", "acc", "acc", True), ("e", "val/acc", "val/acc", True),
    ("xvalidation/e", "acc", "validation/acc", False), ("e", "val/acc", "acc", False)])
def test_a_folder_may_stand_before_the_tag(path, name, tag, asked, found):
    path.write_bytes(framed(record((tag, 1, "simple"))))
    assert [measured.values for measured in reader(path, name, [asked]).read()] == [{asked: 1}] * found


def test_a_file_is_read_as_it_grows_by_any_pieces_and_large_records_are_stepped_over(path):
    events = [record(("loss", number, "simple"), step=number) for number in range(20)]
    image = Event(step=1, summary=Summary(value=[Summary.Value(tag="image", image=Summary.Image(
        encoded_image_string=b"x" * 400_000))])).SerializeToString()
    data = framed(*events[:10], image, *events[10:])
    path.write_bytes(b"")
    source, seen = reader(path), []
    for at in [*range(0, 300, 7), *range(300, len(data), 60_001), len(data)]:
        path.write_bytes(data[:at])
        seen += source.read()
        while source.has_more:
            seen += source.read()
    assert [measured.values["loss"] for measured in seen] == list(range(20))
    for number in (0, 5, 18):
        assert [one.step for one in reader(path, position=seen[number].position).read()][0] == number + 1


@pytest.mark.parametrize("where", ["length", "its checksum", "data", "data's checksum"])
def test_what_follows_damage_is_not_read(path, where):
    first, second, third = (framed(record(("loss", number, "simple"))) for number in (1, 2, 3))
    place = {"length": 1, "its checksum": 9, "data": len(second) - 6, "data's checksum": len(second) - 1}[where]
    path.write_bytes(first + second[:place] + bytes([second[place] ^ 1]) + second[place + 1:] + third)
    source = reader(path)
    assert [measured.values for measured in source.read()] == [{"loss": 1}]
    assert source.read() == []


@pytest.mark.parametrize("data", [
    b"\xff" * 40, struct.pack("<Q", 1) + b"0000" + b"x" * 9, b"text, and no records at all"])
def test_another_file_has_no_scalars(path, data):
    path.write_bytes(data)
    assert reader(path).read() == []


def test_a_message_of_any_bytes_does_no_harm(path):
    chance = random.Random(5)
    for _ in range(300):
        event = bytearray(record(("loss", 1.0, "simple"), ("validation/acc", 2, "float32")))
        for _ in range(chance.randrange(1, 5)):
            event[chance.randrange(len(event))] = chance.randrange(256)
        path.write_bytes(framed(bytes(event)))
        for measured in reader(path).read():
            assert all(isinstance(value, float) for value in measured.values.values())


def test_a_file_of_tensorboards_own_writer_becomes_results(keeper, server, tmp_path):
    writer = EventFileWriter(str(tmp_path / "made" / "validation"))
    for step in range(3):
        writer.add_event(Event(step=step, summary=Summary(value=[
            Summary.Value(tag="loss", simple_value=4 - step), Summary.Value(tag="acc", simple_value=step / 4)])))
    writer.close()
    assert keeper.run(f"cp -r {tmp_path}/made $NNI_OUTPUT_DIR/tensorboard",
                      metrics={"tensorboard": ["validation/acc", "loss"], "result": "validation/acc"}) == 0
    assert [json.loads(value) for value in server.values()] == [
        {"default": 0, "loss": 4}, {"default": 0.25, "loss": 3}, {"default": 0.5, "loss": 2},
        {"default": 0.5, "loss": 2}]


def test_nothing_is_lost_or_doubled_when_the_keeper_is_killed(keeper, server):
    code = ("import os, time\nfrom tensorboard.compat.proto.event_pb2 import Event\n"
            "from tensorboard.compat.proto.summary_pb2 import Summary\n"
            "from tensorboard.summary.writer.record_writer import RecordWriter\n"
            "writer = RecordWriter(open(os.environ['NNI_OUTPUT_DIR'] + '/x.tfevents', 'wb', buffering=0))\n"
            "for step in range(100000):\n"
            "    value = Summary.Value(tag='loss', simple_value=step)\n"
            "    writer.write(Event(step=step, summary=Summary(value=[value])).SerializeToString())\n"
            "    time.sleep(0.002)")
    keeper.limits["grace_period"] = 0.2
    process = keeper.start(keeper.python_command(code), metrics={"tensorboard": ["loss"], "result": "loss"})
    server.wait_for(lambda: len(server.values()) > 100)
    process.kill()
    process.wait()
    path = keeper.folder / "nni" / "x.tfevents"
    size = path.stat().st_size
    wait_until(lambda: path.stat().st_size > size + 2000, what="a trial that goes on")
    keeper.run()
    steps = len(reader(path).read())
    reported = [json.loads(value) for value in server.values()]
    assert reported == list(range(steps))
