"""What a notebook shows of an experiment: a bar and a table of its newest trials, which change while it runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nniweb.client.experiment import Experiment
from nniweb.client.following import Followed, Follower, Output
from nniweb.client.words import experiment_counts, trials_cells

#: Trials in the table.
_MOST = 10


def is_in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, whose output can be replaced."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookFollower(Follower):
    """Shows the state in place of the last one. The summary at the end is text."""

    def __init__(self, followed: Followed, out: Output, experiment: Experiment, **clock: Any) -> None:
        super().__init__(followed, out, **clock)
        self._experiment = experiment
        self._display: Any = None

    def _show(self, document: Mapping[str, Any], *, at_once: bool) -> None:
        from IPython.display import HTML, display

        page = HTML(as_html(document, self._experiment.url, self._experiment.newest_trials(_MOST)))
        if self._display is None:
            self._display = display(page, display_id=True)
        else:
            self._display.update(page)


def as_html(document: Mapping[str, Any], url: str, trials: Sequence[Mapping[str, Any]]) -> str:
    """Bar, counts and these trials, as HTML; whatever people have written is escaped."""
    progress = document["progress"]
    fraction = progress["fraction"]
    bar = f"<progress max='1' value='{fraction:.4f}'></progress> " if fraction is not None else ""
    best = progress.get("best_trial_id")
    heading, *rows = trials_cells(trials)
    cells = "".join(
        ("<tr style='font-weight:bold'>" if trial["id"] == best else "<tr>")
        + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for trial, row in zip(trials, rows, strict=True))
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    return (f"<p><a href='{escape(url)}' target='_blank'>{escape(str(document['name']))}</a> {bar}"
            f"{escape(experiment_counts(document))}</p>"
            + (f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>" if trials else ""))
