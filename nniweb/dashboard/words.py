"""Template filters: numbers, durations and times as people read them. static/js/lib/formats.js has the same."""

import json
import math
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from nniweb.client.words import outcome_words
from nniweb.dashboard.reference.reasons import address_of
from trainingservice.reasons import jobs_named_by
from trainingservice.words.byte_size import byte_size as size_in_units
from trainingservice.words.status_words import status_word as word_of

register = template.Library()

#: Significant digits of a number, and of one that is ranked among others.
DIGITS, MOST_DIGITS = 4, 10
#: Those of a standard error.
DIGITS_OF_ERROR = 2
#: Whole numbers below this are written in full.
WHOLE_BELOW = 10_000_000
#: Between the parts of a name.
_MAY_BREAK = mark_safe("<wbr>")
_OF_A_NUMBER = mark_safe(' class="number"')
_BETWEEN_PARTS = re.compile(r"(?<=[/._:…-])(?=[^/._:…-])|(?<=[a-z0-9])(?=[A-Z])")


@register.filter
def digits(value: Any, significant: int | None = None) -> str:
    """A number with four significant digits, or so many; "–" for none."""
    significant = significant or DIGITS
    if value is None or isinstance(value, str | bool):
        return "–" if value in (None, "") else str(value)
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < WHOLE_BELOW:
        return str(int(value))
    if 1e-3 <= abs(value) < 1e6:
        exponent = math.floor(math.log10(abs(value)))
        text = f"{value:.{max(0, significant - 1 - exponent)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent_text = f"{value:.{significant - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent_text)}"


def digits_apart(values: Iterable[float | None]) -> int:
    """The least significant digits, four at least, with which most of these numbers read differently."""
    different = {value for value in values if value is not None and math.isfinite(value)}
    counts = {significant: len({digits(value, significant) for value in different})
              for significant in range(DIGITS, MOST_DIGITS + 1)}
    return max(counts, key=lambda significant: (counts[significant], -significant))


def ordinal(number: int) -> str:
    """"1st", "2nd", "11th"."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as "3 min 5 s": the two greatest units; "–" for none."""
    if not isinstance(seconds, int | float):
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    if left >= 86400:
        return _with_rest(left, 86400, "d", 3600, "h")
    if left >= 3600:
        return _with_rest(left, 3600, "h", 60, "min")
    return _with_rest(left, 60, "min", 1, "s")


def _with_rest(left: int, size: int, name: str, smaller: int, part: str) -> str:
    rest = left % size // smaller
    return f"{left // size} {name} {rest} {part}" if rest else f"{left // size} {name}"


@register.filter
def duration_or_no_limit(seconds: float | None) -> str:
    return "no limit" if seconds is None else duration(seconds)


@register.filter
def duration_as_given(seconds: float | None) -> str:
    """Seconds as a config file and a form take them."""
    return "" if seconds is None else f"{seconds:g}s"


@register.filter
def variant_words(variant: dict[str, Any] | None) -> str:
    """By which people tell one variant of the code from another: the beginning of its hash; "" without one."""
    return "" if not variant else str(variant["sha256"])[:8]


@register.filter
def unlocalized(number: Any) -> str:
    """A number for a script or an attribute: a point, no spaces."""
    return str(number)


@register.filter
def as_json(value: Any) -> str:
    """For a data attribute, which escapes it."""
    return json.dumps(value)


@register.filter
def moment(at: datetime | None) -> SafeString | str:
    """A time element, which the page's script turns into local time; "–" for none."""
    if at is None:
        return "–"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), at.isoformat(" ", "seconds"),
                       at.strftime("%Y-%m-%d %H:%M UTC"))


@register.filter
def instant(text: str | None) -> SafeString | str:
    """As ``moment``, for a time in a REST document."""
    return moment(datetime.fromisoformat(text) if text else None)


@register.filter
def briefly(at: datetime | str | None) -> SafeString | str:
    """As ``moment``, about as long as the page's script writes it, where nothing shall move then: the clock for today,
    the day without its year for earlier.
    """
    if not at:
        return "–"
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    now = timezone.now()
    short = f"{instant:%H:%M:%S}" if instant.date() == now.date() else f"{instant:%b} {instant.day} {instant:%H:%M}"
    return format_html('<time datetime="{}" title="{}">{} UTC</time>', instant.isoformat(),
                       instant.isoformat(" ", "seconds"), short)


@register.filter
def ago(text: str | None) -> SafeString | str:
    """As ``instant``; the page's script says how long ago it was."""
    if not text:
        return "–"
    at = datetime.fromisoformat(text)
    return format_html('<time data-relative datetime="{}" title="{}">{}</time>', at.isoformat(),
                       at.isoformat(" ", "seconds"), at.strftime("%Y-%m-%d %H:%M UTC"))


@register.filter
def kind_class(kind: str) -> str:
    """The classes of an event's kind: those of a status where it is one, which are written in capitals."""
    return f"status {kind}" if kind.isupper() else ""


@register.filter
def value_at(values: Any, name: str) -> Any:
    """The value of this name, "" where there is none; where no such name is, a dot leads into what is nested."""
    if not isinstance(values, dict):
        return ""
    if name in values:
        return values[name]
    for outer in values:
        if name.startswith(f"{outer}.") and (found := value_at(values[outer], name[len(outer) + 1:])) != "":
            return found
    return ""


@register.filter
def number_at(metrics: Any, column: Any) -> str:
    """What a column (``metric``, ``part``) shows of a trial's further metrics; "" for none."""
    number = (metrics or {}).get(column.metric, {}).get(column.part)
    return "" if number is None else digits(number)


@register.filter
def exact_number_at(metrics: Any, column: Any) -> str:
    """As ``number_at``, for a script."""
    number = (metrics or {}).get(column.metric, {}).get(column.part)
    return "" if number is None else str(number)


@register.filter
def shown_number(numbers: dict[str, float | None]) -> str:
    """Of a further metric the final number; until there is one the latest."""
    return digits(numbers["latest"] if numbers["final"] is None else numbers["final"])


@register.filter
def final_of(metrics: Any, name: str) -> str:
    """The final number of a trial's further metric; "–" for none."""
    return digits((metrics or {}).get(name, {}).get("final"))


@register.filter
def mean(trial: Any) -> str:
    """Of a proposal's first trial the mean, its standard error and of how many values it is; "" for all others."""
    proposal = (trial or {}).get("proposal")
    if proposal is None or proposal["first"] != trial["sequence_id"]:
        return ""
    return mean_with_error(proposal["mean"], proposal["standard_error"], proposal["value_count"])


def mean_with_error(value: float | None, error: float | None, count: int) -> str:
    """``0.91 ± 0.02 (3)``; "–" for no value."""
    if value is None:
        return "–"
    return f"{digits(value)}{'' if error is None else f' ± {digits(error, DIGITS_OF_ERROR)}'} ({count})"


@register.filter
def best(progress: Any) -> str:
    """The best value; with replicates as ``mean_with_error``."""
    if progress["best_replicates"] is None:
        return digits(progress["best_value"])
    return mean_with_error(progress["best_value"], progress["best_standard_error"], progress["best_replicates"])


@register.filter
def outcome(experiment: Any) -> str:
    """What is to be said of an experiment's outcome, "" where it succeeded or goes on."""
    return outcome_words(experiment)


@register.filter
def parameter(value: Any) -> str:
    """A parameter's value in a table: text as it is, all else as JSON."""
    if isinstance(value, float):
        return digits(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 60 else f"{text[:59]}…"


@register.filter
def as_in_a_file(value: Any) -> str:
    """A default as a person writes it into a config file."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def parameter_cell(parameters: Any, column: Any) -> SafeString:
    """The cell of a parameter's column. Of thousands of cells a template takes several times as long."""
    return format_html('<td{} data-parameter="{}">{}</td>', _OF_A_NUMBER if column.number else "", column.parameter,
                       parameter(value_at(parameters, column.parameter)))


@register.filter
def breaking(name: str) -> SafeString:
    """A name that may break into lines behind what parts it and in camel case. static/js/lib/names.js has the same."""
    return format_html_join(_MAY_BREAK, "{}", ((part,) for part in _BETWEEN_PARTS.split(name)))


@register.filter
def exact(value: Any) -> str:
    """A parameter's value with nothing left out: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@register.filter
def status_word(status: str) -> str:
    """The word for a status; other words stay."""
    return word_of(status)


@register.filter
def byte_size(count: float | None) -> str:
    """A number of bytes as "67.2 GB"; "–" for none."""
    return "–" if count is None else size_in_units(count)


@register.filter
def heard_words(heard: dict[str, float] | None) -> str:
    """When a running trial's keeper was heard last and when the next report is expected, as ``last_heard`` tells it."""
    if heard is None:
        return ""
    ago, within = round(heard["ago"]), round(heard["within"])
    expected = f"next report within {_whole_seconds(within - ago)}" if ago < within else \
        f"a report was due after {_whole_seconds(within)}"
    return f"last heard {_whole_seconds(ago)} ago, {expected}"


def _whole_seconds(seconds: int) -> str:
    return f"{seconds} s" if seconds < 10 else duration(seconds)


#: Of a machine: how reports come from it.
_WAYS_OF_REPORTS = {"direct": "Reports directly to this server", "relay": "Reports via SSH tunnel",
                    "files": "Reports by files over SFTP"}


@register.filter
def way_of_reports(way: str) -> str:
    """How the trials of a machine report, in words; a platform's own word stays."""
    return _WAYS_OF_REPORTS.get(way, way)


@register.filter
def explained_at(code: str | None) -> str:
    """The address that says what a reason's code means; "" where there is no code."""
    return address_of(code or "")


@register.filter
def jobs_named(reason: Any) -> str:
    """The jobs that a reason names, with commas between: static/js/ui/named_trials.js shows trials in their place."""
    return ",".join(jobs_named_by(reason))
