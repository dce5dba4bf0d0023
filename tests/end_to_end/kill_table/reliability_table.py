"""A pytest plugin: how often each row of the kill table held, printed at the end and kept in docs/reliability.md.

A test is a row by its mark, ``@pytest.mark.kill_table("what happens")``. Rows take the fixture ``seed``:
``--kill-table-seeds N`` runs them with the seeds 0 to N - 1.
``--kill-table-report docs/reliability.md`` writes the table there, between the two marks of that page. A run of all
rows writes the table anew. A run of some, or one that was ended early, replaces the rows that it ran and no others.
The page says which of the two it was.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROW = "kill table row"
BEGIN, END = "<!-- kill table: begin -->", "<!-- kill table: end -->"
NOT_RUN = "not run"
TESTS = Path(__file__).resolve().parents[2]


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


def is_of_all_rows(config: pytest.Config, exitstatus: int) -> bool:
    """Whether this run was asked for all rows, as ``make chaos`` asks for them, and came to its end."""
    option = config.option
    folders = [(config.invocation_params.dir / argument).resolve() for argument in config.args]
    narrowed = any(getattr(option, name, None)
                   for name in ("keyword", "deselect", "ignore", "ignore_glob", "lf", "maxfail", "stepwise"))
    return (folders == [TESTS] and option.markexpr == "kill_table" and not narrowed
            and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED))


def table(rows: dict[str, tuple[int, int]]) -> str:
    lines = ["| what happens | runs | nothing lost, doubled or left |", "|---|---:|---:|"]
    return "\n".join(lines + [f"| {row} | {runs or NOT_RUN} | {good if runs else ''} |"
                              for row, (good, runs) in sorted(rows.items())])


def rows_of(page: str) -> dict[str, tuple[int, int]]:
    """The rows that stand in the page: what ``table`` wrote."""
    found = re.findall(rf"^\| (.+) \| (\d+|{NOT_RUN}) \| (\d*) \|$", between_marks(page)[1], re.MULTILINE)
    return {row: (int(good or 0), 0 if runs == NOT_RUN else int(runs)) for row, runs, good in found}


def written_into(page: str, rows: dict[str, tuple[int, int]], *, all_rows: bool) -> str:
    """The page with these rows in its table. ``all_rows``: other rows are of tests that no longer exist, and go.

    A row that was not run (its tests were skipped) keeps what an earlier run found.
    """
    before, old, after = between_marks(page)
    earlier, ran = rows_of(page), {row: its for row, its in rows.items() if its[1]}
    kept = {row: earlier.get(row, its) for row, its in rows.items()} if all_rows else {**rows, **earlier}
    new = {**kept, **ran}
    if all_rows and len(ran) == len(new):
        said = f"{len(new)} rows, all of one run."
    else:
        said = f"{len(new)} rows, of more than one run; the last run was of {len(ran)} of them."
    return f"{before}{BEGIN}\n{said}\n\n{table(new)}\n{END}{after}"


def between_marks(page: str) -> tuple[str, str, str]:
    """The page up to the table, the table, and the rest. Raises ValueError where the marks are not there."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"the page has no place for the kill table: it needs the lines {BEGIN} and {END}")
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    return before, table, after


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    rows = held(config)
    if not rows:
        return
    terminalreporter.section("kill table")
    for row, (good, runs) in rows.items():
        terminalreporter.line(f"{good:3} of {runs:3}  {row}", red=good < runs)
    page: Path | None = config.getoption("--kill-table-report")
    if page is not None:
        page.write_text(written_into(page.read_text(), rows, all_rows=is_of_all_rows(config, exitstatus)))
