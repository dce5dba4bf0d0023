"""What a chart on a page shows, as its library knows it: a canvas cannot be read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

#: Seconds until a chart shows what it shall.
PATIENCE = 60.0
OPTION = """(element) => {
  const option = globalThis.echarts?.getInstanceByDom(element)?.getOption();
  return option?.series?.length ? JSON.parse(JSON.stringify(option)) : null;
}"""


def shown_chart(page: Any, selector: str) -> Any:
    """The chart's options now; None before it is drawn."""
    return page.locator(selector).evaluate(OPTION)


def wait_for_chart(page: Any, selector: str, condition: Callable[[Any], bool]) -> Any:
    """Wait until the chart's options are as wanted; returns them. Asked from here: the pages allow no eval."""
    deadline = time.monotonic() + PATIENCE
    while (now := shown_chart(page, selector)) is None or not condition(now):
        assert time.monotonic() < deadline, f"{selector} shows {str(now)[:3000]}"
        page.wait_for_timeout(50)
    return now
