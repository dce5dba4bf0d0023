"""What ``/metrics`` says, wherever it is asked: figures of this process, and of the database where it can be asked."""

import logging

from django.conf import settings
from django.db import DatabaseError
from django.utils.crypto import constant_time_compare
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from nniweb.observability.database_figures import DatabaseFigures
from nniweb.observability.process_figures import registry

logger = logging.getLogger(__name__)


def all_figures() -> bytes:
    """In Prometheus' text form (``prometheus_client.CONTENT_TYPE_LATEST``). Blocking; asks the database."""
    return generate_latest(registry) + _of_the_database()


def is_metrics_token(authorization: str) -> bool:
    """Whether this Authorization header has NNIWEB_METRICS_TOKEN. Where none is set, none is right."""
    scheme, _, secret = authorization.partition(" ")
    return scheme.lower() == "bearer" and bool(settings.METRICS_TOKEN) and \
        constant_time_compare(secret.strip(), settings.METRICS_TOKEN)


def _of_the_database() -> bytes:
    """Figures of the rows, and whether they could be asked for: an outage is when figures are wanted most."""
    found = CollectorRegistry()
    answers = Gauge("nniweb_database_answers", "1 if the metrics of the database could be read for this answer, else "
                                               "0.",
                    registry=found)
    figures = CollectorRegistry()
    figures.register(DatabaseFigures())
    try:
        of_rows = generate_latest(figures)
    except DatabaseError as error:
        logger.warning("the metrics of the database are left out; its error: %s", error)
        answers.set(0)
        return generate_latest(found)
    answers.set(1)
    return generate_latest(found) + of_rows
