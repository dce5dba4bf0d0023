"""What is wrong with the whole installation, for the top of every page."""

from django.http import HttpRequest

from nniweb.experiments.sql.database_health import trouble


def above_every_page(_request: HttpRequest) -> dict[str, str]:
    """Context processor: ``trouble``, a sentence, "" where there is none."""
    return {"trouble": trouble()}
