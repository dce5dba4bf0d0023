"""A status has one colour and one icon, whoever shows it; times have one clock."""

import re
from pathlib import Path

import pytest

from tests.nniweb.dashboard.test_page_words import in_node
from trainingservice.trial_job_status import TrialJobStatus

ROOT = Path(__file__).resolve().parents[3]
CSS = (ROOT / "static" / "css" / "nniweb.css").read_text()
STATUSES = [status.value for status in TrialJobStatus]


def properties(theme: str) -> dict[str, str]:
    """The custom properties that the stylesheet sets for everything, resolved."""
    light, dark = CSS.split("@media (prefers-color-scheme: dark)", 1)
    blocks = [light, dark[:dark.index("}\n}")]] if theme == "dark" else [light]
    found = dict(pair for block in blocks for pair in re.findall(r"(--[\w-]+): ([^;]+);", block))
    return {name: found.get(value[4:-1], value) if value.startswith("var(") else value for name, value in found.items()}


def contrast(one: str, other: str) -> float:
    """Of two colours as #rrggbb, by WCAG."""
    def luminance(colour: str) -> float:
        parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("status", STATUSES)
def test_each_status_has_a_colour_that_can_be_read_and_an_icon(theme: str, status: str) -> None:
    found, name = properties(theme), status.lower().replace("_", "-")
    assert found[f"--icon-{name}"].strip('"')
    for ground in ("--ground", "--raised"):
        assert contrast(found[f"--status-{name}"], found[ground]) >= 4.5
    assert re.search(rf"\.{status}\b[^{{]*{{ --status: var\(--status-{name}\); --icon: var\(--icon-{name}\); }}", CSS)


def test_the_charts_read_the_colours_of_statuses_from_the_stylesheet() -> None:
    scripts = {path: path.read_text() for path in (ROOT / "static" / "js").rglob("*.js")}
    assert [path for path, text in scripts.items()
            if re.search(r"--chart-(failed|running)|(FAILED|SUCCEEDED|RUNNING): \[?\"(--|#)", text)] == []
    for chart in ("overview/result_chart.js", "overview/pareto_chart.js", "timeline/timeline_chart.js"):
        assert "statusColour(" in scripts[ROOT / "static" / "js" / "experiment" / chart]


def test_an_end_is_green_by_its_outcome_alone() -> None:
    assert re.search(r"\n\.DONE { --status: var\(--quiet\);", CSS)
    assert re.search(r"\.DONE\[data-outcome=\"succeeded\"\] { --status: var\(--status-succeeded\)", CSS)
    assert re.search(r"\.DONE\[data-outcome=\"failed\"\] { --status: var\(--status-failed\)", CSS)


def test_there_is_one_clock_of_24_hours(tmp_path: Path) -> None:
    at = "new Date(2026, 10, 3, 15, 4, 5)"
    shown = in_node(tmp_path, "lib/clock.js", "clock, dayAndClock, fullTime",
                    f"[clock({at}), clock({at}, true), dayAndClock({at}).slice(-5), fullTime({at})]")
    assert shown[:3] == ["15:04", "15:04:05", "15:04"]
    assert "15:04:05" in shown[3]
    others = [path for path in (ROOT / "static" / "js").rglob("*.js")
              if path.name != "clock.js" and re.search(r"toLocaleTimeString|timeStyle", path.read_text())]
    assert others == []
