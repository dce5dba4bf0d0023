"""Numbers and times on pages; the scripts write them the same way."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from nniweb.dashboard.trial.no_readings import no_readings
from nniweb.dashboard.trial.trial_report import without_terminal_codes
from nniweb.dashboard.words import (
    breaking,
    briefly,
    digits,
    digits_apart,
    duration,
    heard_words,
    mean_with_error,
    outcome,
    parameter,
)

SCRIPTS = Path(__file__).resolve().parents[3] / "static" / "js"
NUMBERS = [0, 1, -3, 12345, 0.5, 0.123456, 1 / 3, 1234.5678, 99999.9, 123456.7, 1e-3, 0.00012345, 1.5e-9, 1e6, 2.5e12,
           -0.98765, 100.0, 9999.0, 3.0]
SECONDS = [0, 0.04, 9.94, 10, 59.4, 60, 61, 185, 3599, 3600, 3725, 86400, 90061, None]


@pytest.mark.parametrize(("value", "text"), [
    (None, "–"), (0.123456, "0.1235"), (1234.5678, "1235"), (0.00012345, "1.234e-4"), (2.5e12, "2.5e12"), (3.0, "3"),
    (float("nan"), "nan"), (12345, "12345")])
def test_numbers_have_four_significant_digits(value: float | None, text: str) -> None:
    assert digits(value) == text


@pytest.mark.parametrize(("seconds", "text"), [
    (None, "–"), ("", "–"), (3.14159, "3.1 s"), (42.4, "42 s"), (185, "3 min 5 s"), (1800, "30 min"),
    (3725, "1 h 2 min"), (90061, "1 d 1 h")])
def test_durations_have_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_parameters_are_written_as_in_json_by_server_and_scripts(tmp_path: Path) -> None:
    values = [True, False, None, {"_name": "conv", "k": [1, "é"]}, "text", 7, [None]]
    assert [parameter(value) for value in values] == in_node(
        tmp_path, "lib/formats.js", "parameter", f"{json.dumps(values)}.map(parameter)") == [
        "true", "false", "null", '{"_name":"conv","k":[1,"é"]}', "text", "7", "[null]"]


def test_parameters_are_short() -> None:
    assert parameter(0.123456) == "0.1235"
    assert parameter("x" * 100) == "x" * 59 + "…"


def in_node(folder: Path, module: str, names: str, result: str) -> Any:
    """What these names of a module of the pages make, as JSON."""
    node = shutil.which("node")
    assert node, "npm brings the browser libraries, and node comes with npm"
    (folder / "package.json").write_text('{"type": "module"}')
    shutil.copytree(SCRIPTS, folder, dirs_exist_ok=True)
    program = f'import {{ {names} }} from "./{module}"; console.log(JSON.stringify({result}))'
    done = subprocess.run([node, "--input-type=module", "-e", program], cwd=folder, capture_output=True, text=True,
                          timeout=60, check=True)
    return json.loads(done.stdout)


def test_the_scripts_say_the_same(tmp_path: Path) -> None:
    numbers, durations = in_node(tmp_path, "lib/formats.js", "digits, duration", (
        f"[{json.dumps(NUMBERS)}.map(digits), {json.dumps(SECONDS)}.map(duration)]"))
    assert numbers == [digits(value) for value in NUMBERS]
    assert durations == [duration(seconds) for seconds in SECONDS]


@pytest.mark.parametrize(("values", "significant"), [
    ([], 4), ([0.5, None, 0.25], 4), ([1.00989, 1.00993, 1.0101], 6), ([0.5, 0.5], 4), ([1e-9, 1.00001e-9], 6),
    ([0.1 + 0.2, 0.3], 4), ([0.1 + 0.2, 0.3, 0.30001], 5), ([float("nan"), 1.00001, 1.00002], 6)])
def test_ranked_numbers_have_as_many_digits_as_tell_them_apart(tmp_path: Path, values: list[float | None],
                                                               significant: int) -> None:
    assert digits_apart(values) == significant
    finite = [value for value in values if value is None or value == value]
    assert in_node(tmp_path, "lib/formats.js", "withDigits, digitsApart", (
        f"[digitsApart({json.dumps(finite)}), {json.dumps(finite)}.map((value) => withDigits(value, {significant}))]")
    ) == [
            significant, [digits(value, significant) for value in finite]]


def test_round_numbers_beside_an_axis_keep_their_digits(tmp_path: Path) -> None:
    assert in_node(tmp_path, "lib/formats.js", "tick", "[1.0098, 0.1 + 0.2, 1.00985, 12345.5, 0, 2e-7].map(tick)") == [
        "1.0098", "0.3", "1.00985", "12345.5", "0", "2e-7"]


def test_marks_of_a_time_axis_that_differ_read_differently(tmp_path: Path) -> None:
    marks = [(0.15, 0.05), (0.2, 0.05), (0.02, 0.005), (0.4, 0.2), (12, 2), (300, 60)]
    said = in_node(tmp_path, "lib/formats.js", "durationTick",
                   f"{json.dumps(marks)}.map((mark) => durationTick(...mark))")
    assert said == ["0.15 s", "0.20 s", "0.020 s", "0.4 s", "12 s", "5 min"]


def test_a_standard_error_has_two_significant_digits(tmp_path: Path) -> None:
    cases = [(-0.105716, 0.059438, 3), (12.3456, 1234.4, 2), (0.5, None, 1), (None, None, 0), (2.0, 0.25, 3)]
    said = ["-0.1057 ± 0.059 (3)", "12.35 ± 1234 (2)", "0.5 (1)", "–", "2 ± 0.25 (3)"]
    assert [mean_with_error(*case) for case in cases] == said
    assert in_node(tmp_path, "lib/formats.js", "meanWithError",
                   f"{json.dumps(cases)}.map((each) => meanWithError(...each))") == said


def test_a_page_says_when_a_keeper_was_heard_and_when_it_will_be(tmp_path: Path) -> None:
    cases = [None, {"ago": 0.2, "within": 10}, {"ago": 40.4, "within": 100.0}, {"ago": 119.0, "within": 120},
             {"ago": 190, "within": 120}]
    said = ["", "last heard 0 s ago, next report within 10 s", "last heard 40 s ago, next report within 1 min",
            "last heard 1 min 59 s ago, next report within 1 s",
            "last heard 3 min 10 s ago, a report was due after 2 min"]
    assert [heard_words(case) for case in cases] == said  # type: ignore[arg-type]
    assert in_node(tmp_path, "lib/formats.js", "heardWords", f"{json.dumps(cases)}.map(heardWords)") == said


def test_the_outcome_is_said_where_it_is_no_plain_success(tmp_path: Path) -> None:
    cases = [{"outcome": code, "progress": {"total": total, "trials": {"FAILED": failed}}}
             for code, total, failed in (
                 ("failed", 10, 9), ("failed", 1, 1), ("partly_failed", 12, 3), ("no_result", 2, 0),
                 ("no_result", 0, 0), ("succeeded", 3, 0), (None, 3, 3))]
    said = ["9 of 10 trials failed", "The only trial failed", "3 of 12 trials failed", "No result", "", "", ""]
    assert [outcome(case) for case in cases] == said
    assert in_node(tmp_path, "lib/formats.js", "outcome", f"{json.dumps(cases)}.map(outcome)") == said


def test_names_may_break_between_their_parts(tmp_path: Path) -> None:
    names = ["lr", "layer0/units", "net.encoder_1-x", "_name", "a//b", "end/", "hiddenUnits2Size", "ReLU", ""]
    assert [breaking(name) for name in names] == [
        "lr", "layer0/<wbr>units", "net.<wbr>encoder_<wbr>1-<wbr>x", "_<wbr>name", "a//<wbr>b", "end/",
        "hidden<wbr>Units2<wbr>Size", "Re<wbr>LU", ""]
    assert breaking("<b>/x") == "&lt;b&gt;/<wbr>x"
    parts = in_node(tmp_path, "lib/names.js", "partsOf", f"{json.dumps(names)}.map(partsOf)")
    assert ["<wbr>".join(found) for found in parts] == [breaking(name) for name in names]


@pytest.mark.parametrize("per_line", [6, 7, 9, 13])
def test_names_in_two_lines_break_between_their_parts_and_are_told_apart(tmp_path: Path, per_line: int) -> None:
    names = ["learning_rate", "hiddenUnits", "momentum", "lr", "weight_decay_of_the_encoder", "weight_decay_of_decoder"]
    names += [f"encoder_block/layer{layer}/dropout" for layer in range(12)]
    short = in_node(tmp_path, "lib/names.js", "namesInLines, partsOf",
                    f"namesInLines({json.dumps(names)}, 2, {per_line}).map((text) => partsOf(text))")
    assert len({"".join(parts) for parts in short}) == len(names)
    assert short[3] == ["lr"]
    for parts in short:
        lines = [""]
        for part in parts:
            if len(lines[-1] + part) > per_line:
                lines.append("")
            lines[-1] += part
        assert max(map(len, lines)) <= per_line or len("".join(parts)) <= 8, parts
        assert len(lines) <= 2 or len("".join(parts)) <= 8, parts


@pytest.mark.parametrize("most", [12, 16, 24])
def test_shortened_names_are_told_apart(tmp_path: Path, most: int) -> None:
    names = [f"encoder_block/layer{layer}/{name}" for layer in range(25)
             for name in ("units", "dropout", "activation_function", "learning_rate")]
    names += ["lr", "x" * 40, "x" * 41]
    short = in_node(tmp_path, "lib/names.js", "shortNames", f"shortNames({json.dumps(names)}, {most})")
    assert len(set(short)) == len(names)
    assert max(map(len, short)) <= most
    assert short[-3] == "lr", "what fits stays"
    assert all("…" in text for text in short[:-3])
    assert all(text.endswith(name[-2:]) for text, name in zip(short, names, strict=True))


def test_a_name_that_cannot_be_told_apart_is_not_shortened(tmp_path: Path) -> None:
    names = ["ab" * 20, "…" + ("ab" * 20)[-3:]]
    short = in_node(tmp_path, "lib/names.js", "shortNames", f"shortNames({json.dumps(names)}, 8)")
    assert len(set(short)) == 2
    assert in_node(tmp_path, "lib/names.js", "shortNames", "shortNames([], 8)") == []


def test_a_time_is_written_about_as_long_as_the_script_writes_it() -> None:
    now = timezone.now()
    today = briefly(now)
    assert f">{now:%H:%M:%S} UTC</time>" in today
    assert f'datetime="{now.isoformat()}"' in today
    assert ">Feb 3 04:05 UTC</time>" in briefly("2024-02-03T04:05:06+00:00")
    assert briefly(None) == briefly("") == "–"


def test_a_trial_without_a_reading_says_what_is_known_of_its_machine(tmp_path: Path) -> None:
    ran = {"machine": "ada", "gpu_indices": [0, 1], "started_at": "2026-01-01T00:00:00Z", "duration": 3.2,
           "ended": True}
    runs = {**ran, "gpu_indices": None, "ended": False}
    cases = [ran, {**ran, "duration": 90.0}, runs, {**runs, "started_at": None}, {**ran, "started_at": None},
             {**ran, "machine": "", "gpu_indices": None}, {**runs, "machine": ""}]
    said = in_node(tmp_path, "trial/no_readings.js", "noReadings", f"{json.dumps(cases)}.map(noReadings)")
    assert said == [
        "It ran on ada with GPU 0, 1 for 3.2 s: too short for a reading, which is made each 10 s.",
        "It ran on ada with GPU 0, 1 for 1 min 30 s, and no reading of it has come.",
        "It runs on ada. The first reading comes about 10 s after the start.",
        "It does not run on a machine yet.", "It never ran on a machine.",
        "It ran for 3.2 s: too short for a reading, which is made each 10 s.",
        "It runs. The first reading comes about 10 s after the start."]
    assert [no_readings(case) for case in cases] == said


def test_terminal_codes_are_taken_out() -> None:
    assert without_terminal_codes("\x1b[31;1mred\x1b[0m \x1b]0;title\x07x\x1b(B") == "red x"


CHART = ("(globalThis.document = {}, globalThis.getComputedStyle = () => ({ getPropertyValue: () => '' }), "
         "new ResourceChart([{ at: '2026-01-01T00:00:00Z', cpu_percent: 0, memory_bytes: %s, gpus: [] }], () => ''))")


@pytest.mark.parametrize("memory", ["null", "0", "1", "3"])
def test_no_mark_of_the_charts_of_a_trials_machine_is_repeated(tmp_path: Path, memory: str) -> None:
    axis = in_node(tmp_path, "charts/resource_chart.js", "ResourceChart", f"({CHART % memory}).memory().yAxis")
    assert axis["interval"] >= 1
    assert axis["max"] % axis["interval"] == 0
    axis = in_node(tmp_path, "charts/resource_chart.js", "ResourceChart", f"({CHART % memory}).busy().yAxis")
    assert axis["minInterval"] == 1
