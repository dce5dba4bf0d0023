"""What the sender of a report is told: an HTTP status, how far its journal is stored, orders for its trial."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import F

from nniweb.experiments.ingest.reporting_attempts import ReportingAttempt
from nniweb.experiments.launch.given_parameters import given_text
from nniweb.experiments.lifecycle.trial_end import rest_reason, stop_reason
from nniweb.experiments.models import Attempt, TrialParameters
from nniweb.experiments.models.trial import RESTS, STOPS
from trainingservice.receiver.report_reading import ReadReport
from trialkeeper import contract

#: Seconds until a keeper shall report again whose trial waits for parameters that nobody has given yet.
NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE = 0.2


@dataclass
class Answer:
    """What the sender is told: an HTTP status and the body."""

    status: int
    body: dict[str, Any]
    retry_after: int | None = None


def later_parameters(attempt_pks: Sequence[int]) -> dict[int, list[contract.Order]]:
    """Parameters of index 1 and above (multi-phase trials) as orders, by attempt: those that the trial asked for last
    and what is above. It has those below: it asks for one after the other.
    """
    if not attempt_pks:
        return {}
    orders: dict[int, list[contract.Order]] = defaultdict(list)
    for row in TrialParameters.objects.filter(
            trial__attempts__in=attempt_pks, index__gt=0, index__gte=F("trial__attempts__awaited_index")).annotate(
            attempt=F("trial__attempts")).select_related("trial__experiment").only(
            "index", "parameter_id", "value", "trial__experiment__tuner", "trial__experiment__search_space").order_by(
            "index"):
        orders[row.attempt].append({"order": contract.ORDER_PARAMETERS, "index": row.index,
                                    "text": given_text(row.trial.experiment, row)})
    return orders


def awaited_index(entries: Sequence[contract.Entry], before: int) -> int:
    """Index of the parameters the trial asked for last; a request that names none is passed over."""
    asked = [entry["value"] for entry in entries
             if entry["type"] == contract.METRIC and entry["kind"] == contract.REQUEST_PARAMETER]
    right = [int(text) for text in asked if text.isascii() and text.isdecimal() and len(text) < 10]
    return right[-1] if right else before


def reply(attempt: ReportingAttempt, report: ReadReport, phases: Mapping[int, list[contract.Order]], within: float,
          accepted: int, left_out: Sequence[contract.Rejected] = (), gather_for: float = 0.0) -> Answer:
    """The answer to a report that was taken, with the orders that the keeper does not know yet.

    ``within``: seconds in which the next report is expected, unless parameters are due; ``gather_for``: seconds for
    which metrics and output may wait for others.
    """
    orders: list[contract.Order] = []
    holds = report.keeper["parameter_index"]
    if report.tells_of_an_end:
        pass
    elif attempt.target in STOPS:
        orders.append({"order": contract.ORDER_STOP, "reason": stop_reason(attempt.target, attempt.message)})
    elif attempt.stage == Attempt.Stage.ENDED:
        orders.append({"order": contract.ORDER_STOP, "reason": (
            "the trial has ended, or runs again as another attempt")})
    elif attempt.target in RESTS:
        orders.append({"order": contract.ORDER_FREEZE, "reason": rest_reason(attempt.target, attempt.message)})
    later = phases.get(attempt.pk, ())
    orders += [order for order in later if order["index"] > holds]
    due = attempt.awaited_index > holds and all(order["index"] != attempt.awaited_index for order in later)
    body: dict[str, Any] = {"installation": settings.INSTALLATION_ID, "accepted": accepted,
                            "rejected": [*report.rejected, *left_out], "orders": orders,
                            "next_report_within": NEXT_REPORT_WHILE_PARAMETERS_ARE_DUE if due else within}
    if gather_for:
        body["gather_for"] = gather_for
    return Answer(200, body)


def refusal(status: int, error: str, message: str) -> Answer:
    return Answer(status, {"installation": settings.INSTALLATION_ID, "error": error, "message": message})


def busy(message: str) -> Answer:
    answer = refusal(503, contract.ERROR_BUSY, message)
    answer.retry_after = 1
    return answer
