"""A message as a mail to its rule's owner, at the address of the account."""

import json
import re
import smtplib
import time
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from nniweb.experiments.clusters.addresses import notifications_page
from nniweb.experiments.models import NotificationDelivery
from nniweb.experiments.models.notification import Occasion
from nniweb.experiments.notifications.notification_queue import Try

#: Parameters that a mail lists, and characters of one.
MOST_PARAMETERS, LONGEST_PARAMETER = 50, 200


def send_mail(delivery: NotificationDelivery) -> Try:
    """Blocking; each step of the conversation has its patience (settings.EMAIL_TIMEOUT)."""
    began = time.monotonic()

    def said(words: str, *, delivered: bool = False) -> Try:
        return Try(delivered, words, time.monotonic() - began)

    if not settings.MAIL_URL:
        return said("No mail server is configured. Set NNIWEB_MAIL_URL for the worker.")
    receiver = delivery.rule.owner.email
    if not receiver:
        return said("Your account has no e-mail address. Add one on your account page.")
    told = json.loads(delivery.body)
    mail = EmailMessage(
        f"[NNI Web] {one_line(headline(delivery.occasion, told))}", text_of(delivery, told), to=[receiver],
        connection=get_connection(), headers={
            "Message-ID": f"<{delivery.public_id}@{settings.INSTALLATION_ID}.nniweb>",
            "Auto-Submitted": "auto-generated", "X-NNIWeb-Delivery": str(delivery.public_id)})
    try:
        mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        code, words = next(iter(error.recipients.values()), (0, b""))
        return said(f"The mail server refuses the receiver: {code} {_decoded(words)}")
    except smtplib.SMTPResponseException as error:
        return said(f"The mail server answered: {error.smtp_code} {_decoded(error.smtp_error)}")
    except (smtplib.SMTPException, OSError, ValueError) as error:
        return said(f"The mail server cannot be reached or does not accept the mail: {error or type(error).__name__}")
    return said("The mail server accepted the mail.", delivered=True)


def headline(occasion: str, told: dict[str, Any]) -> str:
    """What happened, in a few words."""
    name = told.get("experiment", {}).get("name", "")
    match occasion:
        case Occasion.DONE:
            trials = told["experiment"].get("trials", {})
            failed, total = trials.get("FAILED", 0), sum(trials.values())
            return f"{name}: done{f', {failed} of {total} trials failed' if failed else ''}"
        case Occasion.FAILED:
            return f"{name}: failed"
        case Occasion.NEW_BEST:
            return f"{name}: new best {told['best']['value']:.6g} (trial {told['best']['sequence_id']})"
    return "A test"


def text_of(delivery: NotificationDelivery, told: dict[str, Any]) -> str:
    """The plain text of a mail. ``told``: what the outbox wrote down of the occasion."""
    rule = delivery.rule
    lines = [headline(delivery.occasion, told), ""]
    if delivery.occasion == Occasion.TEST:
        lines += ["This is the test that you requested. It shows that mails reach you.", ""]
    experiment = told.get("experiment")
    if experiment:
        if experiment["message"]:
            lines += [experiment["message"], ""]
        counts = [f"{count} {status}" for status, count in experiment.get("trials", {}).items() if count]
        lines += [f"Trials: {', '.join(counts)}"] if counts else []
        lines += _best(told)
        lines += ["", experiment["page"], ""]
    lines += ["-- ", f"You get this mail because of your notification \"{one_line(str(rule))}\". Change it or switch "
                     "it off at",
              notifications_page(rule.public_id)]
    return "\n".join(lines)


def _best(told: dict[str, Any]) -> list[str]:
    best = told.get("best")
    if not best:
        return []
    before = told.get("best_before")
    lines = [f"Best: {best['value']:.6g} in trial {best['sequence_id']}"
             + (f" (before: {before:.6g})" if before is not None else "")]
    parameters = best["parameters"]
    for name, value in list(parameters.items())[:MOST_PARAMETERS] if isinstance(parameters, dict) else []:
        lines.append(f"  {one_line(name)} = {json.dumps(value)[:LONGEST_PARAMETER]}")
    return lines


def one_line(text: str) -> str:
    """For headers, which end with the line."""
    return re.sub(r"\s+", " ", text).strip()[:200]


def _decoded(words: bytes | str) -> str:
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else words
