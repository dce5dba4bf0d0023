"""Trials and metrics as records: plain dictionaries in a list, and a table of pandas where it is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nniweb.client.errors import ClientError

if TYPE_CHECKING:  # pandas is not among what this needs
    from pandas import DataFrame

_TIMES = ("created_at", "submitted_at", "started_at", "ended_at", "recorded_at")


class Records(list[dict[str, Any]]):
    """A list of dictionaries. In a notebook it shows itself as a table where pandas is installed."""

    def dataframe(self) -> DataFrame:
        """The same as a table of pandas: nested values have columns of their own (``parameters.lr``), times are times.

        Raises ClientError where pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ClientError("pandas is not installed. Install it with pip install pandas, or use the records, which "
                              "are a list of dictionaries.") from None
        table = pandas.DataFrame([flat(record) for record in self])
        for name in _TIMES:
            if name in table:
                table[name] = pandas.to_datetime(table[name], utc=True, format="ISO8601")
        return table

    def _repr_html_(self) -> str | None:
        """What notebooks show; None, which is the list as it is, without pandas."""
        try:
            return str(self.dataframe()._repr_html_())
        except ClientError:
            return None


def flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """``{"parameters": {"lr": 1}}`` as ``{"parameters.lr": 1}``; lists stay."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inner}": item for inner, item in flat(value).items()}
        else:
            found[name] = value
    return found


def value_of(text: str | None) -> Any:
    """What a trial reported, from its JSON text; the text itself where it is none."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def number_in(value: Any) -> float | None:
    """The number that counts of a reported value: itself, or that of "default". None: too large for a float."""
    if isinstance(value, Mapping):
        value = value.get("default")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def metric_records(export: Mapping[str, Any]) -> Records:
    """A record for each value in an export with intermediate results; ``step`` is None for a final one."""
    records = Records()
    for trial in export["trials"]:
        values: list[tuple[int | None, str]] = list(enumerate(trial["intermediate"]))
        if trial["final_value"] is not None:
            values.append((None, trial["final_value"]))
        for step, text in values:
            value = value_of(text)
            records.append({"trial": trial["id"], "sequence_id": trial["sequence_id"],
                            "kind": "FINAL" if step is None else "PERIODICAL", "step": step, "value": value,
                            "number": number_in(value)})
    return records
