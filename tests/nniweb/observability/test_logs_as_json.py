"""Logs as JSON: one object a line, with the ids of what was worked on."""

import io
import json
import logging
from typing import Any

from nniweb.experiments.secrets.masking import MaskingFormatter
from nniweb.observability.log_ids import log_ids
from tests.nniweb.configured_logs import configured_logs


def logged(write: Any) -> list[dict[str, Any]]:
    """What the configured formatter and filters make of what ``write(logger)`` logs."""
    config = configured_logs()
    handler = logging.StreamHandler(stream := io.StringIO())
    handler.setFormatter(config.configure_formatter(config.config["formatters"]["json"]))
    handler.addFilter(config.configure_filter(config.config["filters"]["ids"]))
    logger = logging.getLogger("test of logs")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        write(logger)
    finally:
        logger.removeHandler(handler)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_object_with_its_ids_and_its_exception() -> None:
    def write(logger: logging.Logger) -> None:
        with log_ids(cluster="farm"):
            with log_ids(experiment="abc"):
                logger.warning("the %s\nhas two lines", "message", extra={"trial": "def"})
            try:
                raise ValueError("of a test")
            except ValueError:
                logger.exception("it failed")
        logger.warning("nothing is known of this one")

    first, second, third = logged(write)
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "WARNING", "logger": "test of logs", "message": "the message\nhas two lines",
                     "cluster": "farm", "experiment": "abc", "trial": "def"}
    assert (second["message"], second["cluster"], "experiment" in second) == ("it failed", "farm", False)
    assert "ValueError: of a test" in second["exception"]
    assert "cluster" not in third


def test_on_the_console_nothing_that_was_sent_colours_it_or_passes_for_a_line_of_its_own() -> None:
    record = logging.makeLogRecord({"msg": "a trial said %s", "levelname": "INFO", "name": "nniweb", "args": (
        "\x1b[31mred\x1b]0;title\x07\r2026-01-01 INFO nniweb: forged\n2026-01-01 INFO nniweb: forged\u202e\x9b",)})
    line = MaskingFormatter("%(levelname)s %(name)s: %(message)s").format(record)
    assert line == ("INFO nniweb: a trial said \\x1b[31mred\\x1b]0;title\\x07\\x0d2026-01-01 INFO nniweb: forged\n"
                    "    2026-01-01 INFO nniweb: forged\\u202e\\x9b")
