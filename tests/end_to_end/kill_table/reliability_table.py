"""A pytest plugin: how often each row of the kill table held, printed at the end and kept in docs/reliability.md.

A test is a row by its mark, ``@pytest.mark.kill_table("what happens")``. Rows take the fixture ``seed``:
``--kill-table-seeds N`` runs them with the seeds 0 to N - 1.
``--kill-table-report docs/reliability.md`` writes the table there, between the two marks of that page.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROW = "kill table row"
BEGIN, END = "<!-- kill table: begin -->", "<!-- kill table: end -->"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kill-table-seeds", metavar="N", type=int, default=1,
                     help="run each row of the kill table N times")
    parser.addoption("--kill-table-report", metavar="FILE", type=Path, help="write the kill table into this page")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames and "end_to_end" in metafunc.definition.path.parts:
        metafunc.parametrize("seed", range(metafunc.config.getoption("--kill-table-seeds")), indirect=True)


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What the moment or the victim of a row is chosen by."""
    return int(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (mark := item.get_closest_marker("kill_table")) is not None:
            item.user_properties.append((ROW, mark.args[0]))


def held(config: pytest.Config) -> dict[str, tuple[int, int]]:
    """Row -> (how often all was well, how often it was run: 0 where it was skipped)."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    runs: dict[str, dict[str, bool]] = {}
    for outcome in ("skipped", "passed", "failed", "error"):
        for report in reporter.stats.get(outcome, []):
            for name, row in getattr(report, "user_properties", ()):
                if name == ROW:
                    its = runs.setdefault(str(row), {})
                    if outcome != "skipped":  # one that cannot be cleaned up after did not hold either
                        its[report.nodeid] = its.get(report.nodeid, True) and outcome == "passed"
    return {row: (sum(its.values()), len(its)) for row, its in sorted(runs.items())}


def table(rows: dict[str, tuple[int, int]]) -> str:
    lines = ["| what happens | runs | nothing lost, doubled or left |", "|---|---:|---:|"]
    return "\n".join(lines + [f"| {row} | {runs or 'not run'} | {good if runs else ''} |"
                              for row, (good, runs) in rows.items()])


def written_into(page: str, rows: dict[str, tuple[int, int]]) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(rows)}\n{END}{after}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = held(config)
    if not rows:
        return
    terminalreporter.section("kill table")
    for row, (good, runs) in rows.items():
        terminalreporter.line(f"{good:3} of {runs:3}  {row}", red=good < runs)
    page: Path | None = config.getoption("--kill-table-report")
    if page is not None:
        page.write_text(written_into(page.read_text(), rows))
