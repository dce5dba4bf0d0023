"""Messages reach their receivers over real HTTP and SMTP: signed, tried again, once, and nowhere they must not go."""

import contextlib
import email
import hashlib
import hmac
import json
import logging
import smtplib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from django.db import connection
from django.utils import timezone

from nniweb.experiments.lifecycle.transitions import move_experiment
from nniweb.experiments.models import Experiment, NotificationDelivery, NotificationRule, User, Worker
from nniweb.experiments.notifications.notification_queue import (
    CLAIM_SECONDS,
    MOST_OF_ONE,
    PAUSES,
    claim,
    forget_ended,
)
from nniweb.experiments.notifications.notification_rules import change_rule, create_rule, send_again, send_test
from nniweb.experiments.notifications.webhook_address import read_webhook_url
from nniweb.mail_settings import mail_settings
from nniweb.observability.process_figures import registry
from nniweb.process.process_identity import host_name
from nniweb.worker.notifications import notification_sender, webhook_call
from nniweb.worker.notifications.notification_sender import NotificationSender
from nniweb.worker.notifications.webhook_call import CallFailed, post
from tests.fakes.http_double import Answer
from tests.fakes.tls_certificate import make_certificate
from tests.fakes.webhook_receiver import WebhookReceiver

SECRET = "a secret of sixteen characters"
THREADS = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def loopback_is_allowed(settings: Any) -> None:
    settings.WEBHOOK_PRIVATE_ADDRESSES = True


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    receiver.start()
    yield receiver
    receiver.close()


@pytest.fixture
def rule(admin: User, receiver: WebhookReceiver) -> NotificationRule:
    return webhook(admin, f"{receiver.address}/hook?key=k")


def webhook(owner: User, url: str, **more: Any) -> NotificationRule:
    return create_rule(owner, {"channel": "webhook", "url": url, "secret": SECRET, "on_done": True, **more})[0]


def send_due() -> NotificationDelivery:
    """What a worker does when it looks, on this thread; the latest message as it is then."""
    for delivery in claim("worker", 10, (), timezone.now()):
        NotificationSender("worker").send_one(delivery)
    return NotificationDelivery.objects.latest("pk")


def tries_counted() -> tuple[float, float]:
    """Delivered and failed ones, by webhook, as /metrics has them."""
    name, channel = "nniweb_notifications_total", "webhook"
    delivered, failed = (registry.get_sample_value(name, {"channel": channel, "outcome": outcome}) or 0.0
                         for outcome in ("delivered", "failed"))
    return delivered, failed


def make_due() -> None:
    NotificationDelivery.objects.filter(state="waiting").update(due_at=timezone.now() - timedelta(seconds=1))


def test_a_message_is_signed_over_its_time_and_its_body(rule: NotificationRule, receiver: WebhookReceiver,
                                                        make_experiment: Callable[..., Experiment]) -> None:
    experiment = make_experiment(status="NO_MORE_TRIAL")
    move_experiment(experiment, "DONE", timezone.now())
    delivery = send_due()
    assert (delivery.state, delivery.tries[0]["status"], delivery.tries[0]["answer"]) == ("delivered", 200, "thanks")
    [request] = receiver.requests
    assert (request.method, request.path, request.query) == ("POST", "/hook", {"key": "k"})
    at = request.headers["X-NNIWeb-Timestamp"]
    assert abs(int(at) - time.time()) < 120
    expected = hmac.new(SECRET.encode(), f"{at}.".encode() + request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-NNIWeb-Signature"] == f"sha256={expected}"
    assert request.headers["X-NNIWeb-Event"] == "experiment.done"
    body = request.json()
    assert request.headers["X-NNIWeb-Delivery"] == body["delivery"] == str(delivery.public_id)
    assert body["experiment"]["id"] == experiment.public_id


def test_the_receivers_of_one_person_do_not_take_all_senders(receiver: WebhookReceiver, admin: User) -> None:
    for _ in range(5):
        send_test(webhook(admin, f"{receiver.address}/silent"))
    other = send_test(webhook(User.objects.create_user("other"), f"{receiver.address}/hook"))
    first = claim("worker", 4, (), timezone.now())
    assert [delivery.rule.owner.username for delivery in first].count("other") == 1
    assert len(first) == 1 + MOST_OF_ONE
    assert other in first
    busy = {delivery.rule_id for delivery in first}
    assert claim("worker", 1, busy, timezone.now()) == [], "the others wait for an answer of the first"
    [after] = claim("worker", 4, busy - {first[0].rule_id}, timezone.now())
    assert after.rule.owner == admin


@pytest.mark.parametrize(("answer", "words"), [
    (Answer(503, "busy", content_type="text/plain"), "busy"), (Answer(404, "no such hook"), "no such hook"),
    (Answer(302, "", headers={"Location": "http://127.0.0.1:1/"}), "redirects to another one, which is not followed")])
def test_what_is_not_taken_is_tried_again_after_a_pause(rule: NotificationRule, receiver: WebhookReceiver,
                                                        answer: Answer, words: str) -> None:
    receiver.script(answer)
    send_test(rule)
    counted = tries_counted()
    before = timezone.now()
    delivery = send_due()
    assert (delivery.state, delivery.try_count, delivery.tries[0]["status"]) == ("waiting", 1, answer.status)
    assert words in delivery.tries[0]["answer"]
    assert delivery.due_at >= before + timedelta(seconds=PAUSES[0])
    assert claim("another", 10, (), timezone.now()) == [], "not before its time"
    make_due()
    assert send_due().state == "delivered"
    assert tries_counted() == (counted[0] + 1, counted[1] + 1)
    first, second = receiver.requests
    assert first.headers["X-NNIWeb-Delivery"] == second.headers["X-NNIWeb-Delivery"]
    assert first.body == second.body


def test_pauses_grow_and_at_last_it_is_given_up_until_somebody_asks(rule: NotificationRule, receiver: WebhookReceiver
                                                                    ) -> None:
    receiver.close()
    send_test(rule)
    pauses = []
    for _ in PAUSES:
        delivery = send_due()
        assert delivery.state == "waiting"
        pauses.append((delivery.due_at - timezone.now()).total_seconds())
        make_due()
    assert pauses == sorted(pauses)
    delivery = send_due()
    assert delivery.state == "given_up"
    assert delivery.message.startswith(f"Sending was tried {len(PAUSES) + 1} times. The receiver cannot be reached")
    assert claim("worker", 10, (), timezone.now()) == []
    receiver.start()
    send_again(delivery)
    assert send_due().state == "delivered"


def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_ever(rule: NotificationRule, receiver: WebhookReceiver
                                                                ) -> None:
    send_test(rule)
    for asked, pause in (("1800", 1800), ("99999999", 3600), ("tomorrow", PAUSES[2])):
        receiver.script(Answer(429, "slowly", headers={"Retry-After": asked}))
        before = timezone.now()
        delivery = send_due()
        assert timedelta(0) <= delivery.due_at - before - timedelta(seconds=pause) < timedelta(seconds=60)
        make_due()


@pytest.mark.django_db
def test_while_no_message_waits_a_look_is_one_question(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        assert NotificationSender("worker").look() == 0


@THREADS
def test_two_workers_send_each_message_once(admin: User, receiver: WebhookReceiver) -> None:
    for number in range(12):
        send_test(webhook(admin, f"{receiver.address}/{number}"))
    senders = [NotificationSender("one"), NotificationSender("two")]
    for sender in senders:
        sender.start()
    until(lambda: not NotificationDelivery.objects.exclude(state="delivered").exists())
    for sender in senders:
        sender.stop()
    for sender in senders:
        sender.join(30)
    assert sorted(request.path for request in receiver.requests) == sorted(f"/{number}" for number in range(12))


@THREADS
def test_what_a_dead_worker_had_in_hand_is_sent_by_another_one_with_the_same_id(rule: NotificationRule,
                                                                               receiver: WebhookReceiver) -> None:
    delivery = send_test(rule)
    assert [each.pk for each in claim("dead", 10, (), timezone.now())] == [delivery.pk]
    sender = NotificationSender("alive")
    assert sender.look() == 0, "it is the other one's for a while"
    claimed_until = NotificationDelivery.objects.get().claimed_until
    assert claimed_until is not None
    assert abs((claimed_until - timezone.now()).total_seconds() - CLAIM_SECONDS) < 30
    NotificationDelivery.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert sender.look() == 1
    until(lambda: NotificationDelivery.objects.get().state == "delivered")
    sender.stop()
    sender.join(30)
    assert [request.headers["X-NNIWeb-Delivery"] for request in receiver.requests] == [str(delivery.public_id)]


@THREADS
def test_what_a_worker_of_this_host_had_in_hand_is_sent_at_once_when_its_process_has_gone(
        rule: NotificationRule, receiver: WebhookReceiver) -> None:
    now = timezone.now()
    with subprocess.Popen(["true"]) as gone:
        pid = gone.pid
    Worker.objects.create(id="killed", host=host_name(), pid=pid, pid_started="0", started_at=now, heard_at=now)
    send_test(rule)
    assert len(claim("killed", 10, (), timezone.now())) == 1
    sender = NotificationSender("alive")
    assert sender.look() == 1
    until(lambda: NotificationDelivery.objects.get().state == "delivered")
    sender.stop()
    sender.join(30)


def test_one_receiver_of_many_messages_does_not_stand_before_the_others(admin: User, rule: NotificationRule) -> None:
    earlier = timezone.now() - timedelta(minutes=1)
    NotificationDelivery.objects.bulk_create(
        NotificationDelivery(rule=rule, occasion="test", body="{}", created_at=earlier, planned_at=earlier,
                             due_at=earlier) for _ in range(200))
    other = send_test(webhook(admin, "http://127.0.0.1:9/"))
    claimed = claim("worker", 4, (), timezone.now())
    assert [delivery.rule_id for delivery in claimed] == [rule.pk, other.rule_id]


def test_who_lost_its_claim_writes_nothing(rule: NotificationRule, receiver: WebhookReceiver) -> None:
    send_test(rule)
    [slow] = claim("slow", 10, (), timezone.now())
    NotificationDelivery.objects.update(claimed_by="other")
    NotificationSender("slow").send_one(slow)
    delivery = NotificationDelivery.objects.get()
    assert (delivery.state, delivery.claimed_by, delivery.try_count) == ("waiting", "other", 0)


@THREADS
def test_a_receiver_that_hangs_holds_up_nobody_else(admin: User, rule: NotificationRule, receiver: WebhookReceiver
                                                    ) -> None:
    receiver.may_answer.clear()
    for _ in range(6):
        NotificationDelivery.objects.create(rule=rule, occasion="test", body="{}", created_at=timezone.now(),
                                            planned_at=timezone.now(), due_at=timezone.now())
    other = WebhookReceiver()
    other.start()
    send_test(webhook(admin, other.address))
    sender = NotificationSender("worker")
    sender.start()
    until(lambda: len(other.requests) == 1)
    sender.stop()
    receiver.may_answer.set()
    sender.join(30)
    other.close()


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, list(NotificationDelivery.objects.values("state", "tries", "claimed_by"))
        time.sleep(0.05)
    connection.close()


# --- where it must not go --------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f000001",
                                  "169.254.169.254", "10.1.2.3", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "0.0.0.0"])
def test_addresses_that_are_not_public_are_not_even_asked(receiver: WebhookReceiver, monkeypatch, host: str) -> None:
    def never(*_: Any, **__: Any) -> socket.socket:
        raise AssertionError("connected")

    address = read_webhook_url(f"http://{host}:{receiver.port}/")
    monkeypatch.setattr(webhook_call.socket, "create_connection", never)
    with pytest.raises(CallFailed, match="is not a public internet address.*NNIWEB_WEBHOOK_PRIVATE_ADDRESSES=1"):
        post(address, b"{}", {}, also_private=False, seconds=5)


def test_one_private_address_among_public_ones_is_enough_to_refuse(monkeypatch) -> None:
    answers = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, 443)) for number in ("93.184.216.34", "10.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)
    with pytest.raises(CallFailed, match=r"hook.example has the address 10\.0\.0\.1"):
        post(read_webhook_url("https://hook.example/"), b"{}", {}, also_private=False, seconds=5)


def test_the_connection_goes_to_the_address_that_was_checked(receiver: WebhookReceiver, monkeypatch) -> None:
    """A name server that answers anew for each question (DNS rebinding) is asked once."""
    real, asked = socket.getaddrinfo, []

    def rebinding(host: str, *arguments: Any, **more: Any) -> Any:
        if host != "hook.example":
            return real(host, *arguments, **more)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    answer = post(read_webhook_url(f"http://hook.example:{receiver.port}/a"), b"{}", {}, also_private=True, seconds=30)
    assert (answer.status, asked) == (200, ["hook.example"])
    assert receiver.requests[0].headers["Host"] == f"hook.example:{receiver.port}"


def test_a_proxy_of_the_environment_is_not_used(receiver: WebhookReceiver, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert post(read_webhook_url(receiver.address), b"{}", {}, also_private=True, seconds=30).status == 200


def test_a_certificate_is_checked_against_the_name(tmp_path, monkeypatch) -> None:
    context, authority = make_certificate(tmp_path)
    receiver = WebhookReceiver(context)
    receiver.start()
    with pytest.raises(CallFailed, match="its certificate is not valid"):
        post(read_webhook_url(receiver.address), b"{}", {}, also_private=True, seconds=30)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    assert post(read_webhook_url(receiver.address), b"{}", {}, also_private=True, seconds=30).status == 200
    with pytest.raises(CallFailed, match="its certificate is not valid"):
        post(read_webhook_url(f"https://localhost:{receiver.port}"), b"{}", {}, also_private=True, seconds=30)
    receiver.close()


def test_an_answer_byte_by_byte_ends_in_time() -> None:
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            while not over.wait(0.1):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening], daemon=True)
        thread.start()
        with pytest.raises(CallFailed, match="The receiver did not answer in time"):
            post(read_webhook_url(f"http://127.0.0.1:{listening.getsockname()[1]}/"), b"{}", {}, also_private=True,
                 seconds=1)
        over.set()
        thread.join(30)


def test_an_answer_whose_chunk_has_less_than_no_bytes_is_not_read_to_its_end() -> None:
    """Everything that came was kept in memory, for as long as a receiver may take."""
    taken = 0

    def send_without_end(server: socket.socket) -> None:
        nonlocal taken
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
            while taken < 64 * 2**20:
                connection.sendall(bytes(2**20))
                taken += 2**20

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send_without_end, args=[server], daemon=True)
        sender.start()
        with pytest.raises(CallFailed):
            post(read_webhook_url(f"http://127.0.0.1:{server.getsockname()[1]}/"), b"{}", {}, also_private=True,
                 seconds=20)
        sender.join(10)
    assert taken < 32 * 2**20



def test_a_long_answer_is_cut_and_no_log_has_a_secret(rule: NotificationRule, receiver: WebhookReceiver, caplog
                                                      ) -> None:
    receiver.script(Answer(500, "x" * 1_000_000))
    send_test(rule)
    with caplog.at_level(logging.DEBUG):
        delivery = send_due()
    assert len(delivery.tries[0]["answer"]) == 500
    assert SECRET not in caplog.text
    assert "key=k" not in caplog.text
    assert "key=k" not in repr(rule) + str(rule) + repr(delivery)


def test_an_error_that_nobody_foresaw_is_a_try_like_others(rule: NotificationRule, monkeypatch, caplog) -> None:
    monkeypatch.setattr(notification_sender, "post", lambda *_, **__: 1 / 0)
    send_test(rule)
    delivery = send_due()
    assert (delivery.state, delivery.try_count) == ("waiting", 1)
    assert delivery.tries[0]["answer"] == "The worker failed to send it. The worker's log contains the error."
    assert "ZeroDivisionError" in caplog.text


def test_what_is_switched_off_while_it_is_being_sent_is_not_tried_again(rule: NotificationRule,
                                                                      receiver: WebhookReceiver) -> None:
    receiver.script(Answer(500, "busy"))
    send_test(rule)
    [delivery] = claim("worker", 10, (), timezone.now())
    change_rule(rule, {"enabled": False})
    delivery.rule.enabled = True  # as it was when the worker looked
    NotificationSender("worker").send_one(delivery)
    assert len(receiver.requests) == 1
    delivery.refresh_from_db()
    assert (delivery.state, delivery.message) == ("withdrawn", "The notification was switched off.")


def test_who_may_not_see_it_any_more_is_not_told(admin: User, receiver: WebhookReceiver,
                                                 make_experiment: Callable[..., Experiment]) -> None:
    alice = User.objects.create_user("alice", role="member")
    experiment = make_experiment(owner=alice, status="NO_MORE_TRIAL")
    webhook(alice, receiver.address)
    move_experiment(experiment, "DONE", timezone.now())
    Experiment.objects.update(owner=admin)
    delivery = send_due()
    assert (delivery.state, delivery.message) == ("withdrawn", "You may no longer see the experiment.")
    assert receiver.requests == []


def test_messages_that_ended_long_ago_are_forgotten(rule: NotificationRule) -> None:
    send_test(rule)
    assert send_due().state == "delivered"
    assert forget_ended(timezone.now() + timedelta(days=29)) == 0
    assert forget_ended(timezone.now() + timedelta(days=31)) == 1


# --- mail ------------------------------------------------------------------------------------


class Mailbox(Message):
    def __init__(self) -> None:
        super().__init__()
        self.mails: list[email.message.Message] = []
        self.refuse = ""

    def handle_message(self, message: email.message.Message) -> None:
        self.mails.append(message)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refuse:
            return self.refuse
        envelope.rcpt_tos.append(address)
        return "250 OK"


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    """A real SMTP server; the settings lead to it."""
    mailbox = Mailbox()
    server, port = started(mailbox)
    settings.MAIL_URL = f"smtp://127.0.0.1:{port}"
    for name, value in mail_settings(settings.MAIL_URL).items():
        setattr(settings, name, value)
    yield mailbox
    server.stop()


def started(mailbox: Mailbox) -> tuple[Controller, int]:
    for left in range(10, -1, -1):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = Controller(mailbox, "127.0.0.1", port, ready_timeout=60)
        try:
            server.start()
            return server, port
        except OSError:  # somebody else took the port in between
            if not left:
                raise
    raise AssertionError


def test_a_mail_tells_what_happened_and_where_to_look(mailbox: Mailbox, admin: User,
                                                      make_experiment: Callable[..., Experiment]) -> None:
    User.objects.filter(pk=admin.pk).update(email="ada@example.org")
    admin.refresh_from_db()
    create_rule(admin, {"channel": "email", "on_done": True})
    experiment = make_experiment(status="NO_MORE_TRIAL", name="two\r\nBcc: eve@example.org\r\nlines")
    move_experiment(experiment, "DONE", timezone.now())
    delivery = send_due()
    assert (delivery.state, delivery.tries[0]["answer"]) == ("delivered", "The mail server accepted the mail.")
    [mail] = mailbox.mails
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"] == "[NNI Web] two Bcc: eve@example.org lines: done"
    assert mail["Bcc"] is None
    assert mail["X-RcptTo"] == "ada@example.org"
    assert mail["X-NNIWeb-Delivery"] == str(delivery.public_id)
    assert mail["Message-ID"].startswith(f"<{delivery.public_id}@")
    text = mail.get_payload(decode=True).decode()
    assert f"/experiments/{experiment.public_id}/" in text
    assert "/notifications/" in text


def test_a_mail_of_a_new_best_has_value_and_parameters(mailbox: Mailbox, admin: User) -> None:
    User.objects.filter(pk=admin.pk).update(email="ada@example.org")
    admin.refresh_from_db()
    rule, _ = create_rule(admin, {"channel": "email", "on_best": True})
    now = timezone.now()
    NotificationDelivery.objects.create(
        rule=rule, occasion="experiment.new_best", created_at=now, planned_at=now, due_at=now, body=json.dumps({
            "experiment": {"name": "digits", "message": "", "page": "http://here/experiments/a/"}, "best_before": 0.5,
            "best": {"trial": "b", "sequence_id": 7, "value": 0.25, "parameters": {"lr": 0.125, "name": "a\nb"}}}))
    assert send_due().state == "delivered"
    text = mailbox.mails[0].get_payload(decode=True).decode()
    assert mailbox.mails[0]["Subject"] == "[NNI Web] digits: new best 0.25 (trial 7)"
    assert "Best: 0.25 in trial 7 (before: 0.5)" in text
    assert "  lr = 0.125" in text
    assert '  name = "a\\nb"' in text


def test_what_the_mail_server_says_is_written_down_and_tried_again(mailbox: Mailbox, admin: User) -> None:
    User.objects.filter(pk=admin.pk).update(email="ada@example.org")
    admin.refresh_from_db()
    rule, _ = create_rule(admin, {"channel": "email", "on_done": True})
    mailbox.refuse = "550 no such person here"
    send_test(rule)
    delivery = send_due()
    assert delivery.state == "waiting"
    assert delivery.tries[0]["answer"] == "The mail server refuses the receiver: 550 no such person here"
    mailbox.refuse = ""
    make_due()
    assert send_due().state == "delivered"
    assert [mail["Subject"] for mail in mailbox.mails] == ["[NNI Web] A test"]


def test_a_mail_server_that_is_away_is_tried_again(mailbox: Mailbox, admin: User, monkeypatch) -> None:
    User.objects.filter(pk=admin.pk).update(email="ada@example.org")
    admin.refresh_from_db()
    rule, _ = create_rule(admin, {"channel": "email", "on_done": True})

    def away(*_: Any, **__: Any) -> None:
        raise smtplib.SMTPServerDisconnected("gone")

    monkeypatch.setattr(smtplib.SMTP, "connect", away)
    send_test(rule)
    delivery = send_due()
    assert delivery.state == "waiting"
    assert "cannot be reached or does not accept the mail" in delivery.tries[0]["answer"]
