"""What the client tries again, and what becomes of answers that are none: against a scripted server on loopback."""

import socket
import ssl
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from nniweb.client import CannotReach, Client, Conflict, MayBeDone, NotFound, Refused, commands
from nniweb.client import connection as connection_module
from nniweb.client.errors import ClientError, TokenTrouble
from nniweb.client.experiment import Trial
from tests.fakes.http_double import Answer, HttpDouble, Request
from tests.fakes.tls_certificate import make_certificate

EXPERIMENT = {"id": "abc123abc123", "name": "mice", "status": "RUNNING", "message": "", "revision": 3, "notes": []}


class Server(HttpDouble):
    """Answers each request with the next of ``answers``, then with the experiment. None: hangs up without a word."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.answers: list[Answer | None] = []

    def answer(self, request: Request) -> Answer:
        if request.path.endswith("/account/"):
            return Answer(200, {"username": "ada"})
        found = self.answers.pop(0) if self.answers else Answer(200, EXPERIMENT)
        if found is None:
            raise ConnectionAbortedError  # the connection is closed without an answer
        return found

    def asked(self, method: str) -> int:
        return sum(request.method == method for request in self.requests)


@pytest.fixture
def server() -> Iterator[Server]:
    double = Server()
    double.start()
    yield double
    double.close()


@pytest.fixture
def client(server: Server, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(connection_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(connection_module, "LONGEST_PAUSE", 0.01)
    return Client(server.address, "nniweb_secret")


AWAY = Answer(503, {"errors": [{"field": "", "message": "The database cannot be reached."}]})


def test_a_certificate_of_an_own_authority_is_trusted_where_its_file_is_named(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, authority = make_certificate(tmp_path)
    server = Server(context)
    server.start()
    try:
        with pytest.raises(CannotReach, match="is not trusted: self.signed.*NNIWEB_CA_FILE or --ca-file"):
            Client(server.address, "nniweb_secret", patience=0).experiment("abc123abc123")
        assert server.requests == [], "nobody heard the token"
        assert Client(server.address, "nniweb_secret", ca_file=authority).experiment("abc123abc123").name == "mice"
        monkeypatch.setenv("NNIWEB_CA_FILE", str(authority))
        assert Client(server.address, "nniweb_secret").experiment("abc123abc123").name == "mice"
    finally:
        server.close()
    monkeypatch.setenv("NNIWEB_CA_FILE", str(tmp_path / "gone.pem"))
    with pytest.raises(TokenTrouble, match="gone.pem cannot be used as .* authority: No such file"):
        Client(server.address, "nniweb_secret")
    with pytest.raises(TokenTrouble, match="contains no certificate in PEM format"):
        Client(server.address, "nniweb_secret", ca_file=__file__)


def test_the_token_is_sent_whatever_netrc_says(server: Server, client: Client, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password sesame\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client._session.trust_env = True
    client.experiment("abc123abc123")
    assert {value for request in server.requests for name, value in request.headers.items()
            if name.lower() == "authorization"} == {"Token nniweb_secret"}


def test_reading_is_tried_again_while_the_server_is_away(server: Server, client: Client) -> None:
    server.answers = [AWAY, None, Answer(502, "<html>bad gateway"), Answer(200, EXPERIMENT)]
    assert client.experiment("abc123abc123").name == "mice"
    assert server.asked("GET") == 4


def test_the_pause_that_the_server_asks_for_bounds_the_tries(server: Server, client: Client) -> None:
    server.answers = [Answer(429, {"errors": [{"field": "", "message": "Too many requests."}]},
                             headers={"Retry-After": "3600"})]
    with pytest.raises(Refused, match="Too many requests"):
        client.experiment("abc123abc123")
    assert server.asked("GET") == 1


def test_a_change_whose_answer_was_lost_is_not_sent_again_and_that_is_said(server: Server, client: Client) -> None:
    experiment = client.experiment("abc123abc123")
    server.answers = [None]
    with pytest.raises(MayBeDone, match="may have carried out the request"):
        experiment.resume()
    server.answers = [AWAY]
    with pytest.raises(MayBeDone, match="database"):
        experiment.resume()
    assert server.asked("POST") == 2


def test_stopping_twice_is_harmless_so_it_is_tried_again(server: Server, client: Client) -> None:
    experiment = client.experiment("abc123abc123")
    server.answers = [None, Answer(200, {**EXPERIMENT, "status": "STOPPING"})]
    assert experiment.stop().status == "STOPPING"
    assert server.asked("POST") == 2


def test_each_try_of_a_launch_has_the_whole_form_and_the_same_key_and_the_next_launch_another(
        server: Server, client: Client, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("trialCommand: x\n")
    server.answers = [None, AWAY]
    assert client.launch(tmp_path / "config.yml").id == "abc123abc123"
    client.launch(tmp_path / "config.yml")
    sent = [request for request in server.requests if request.method == "POST"]
    keys = [request.headers["Idempotency-Key"] for request in sent]
    assert len(sent) == 4
    assert len(set(keys[:3])) == 1
    assert keys[3] != keys[0]
    bodies = [request.body.partition(b"\r\n")[2] for request in sent[:3]]  # less the boundary
    assert all(b"trialCommand: x" in body and b"code.tar.gz" in body for body in bodies)
    assert len({len(body) for body in bodies}) == 1


@pytest.mark.parametrize("is_here", [True, False])
def test_a_launch_brings_the_python_of_its_shell_to_a_server_on_the_same_machine_and_to_no_other(
        server: Server, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_here: bool) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/my/environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    monkeypatch.setattr(connection_module, "is_loopback", lambda host: is_here)
    (tmp_path / "config.yml").write_text("trialCommand: x\n")
    client.launch(tmp_path / "config.yml")
    [body] = [request.body for request in server.requests if request.method == "POST"]
    assert (b"/my/environment" in body) == is_here
    assert b"do-not-tell" not in body


def test_a_server_that_is_not_there_is_named_and_nothing_was_done() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        client = Client(f"http://127.0.0.1:{nobody.getsockname()[1]}", "nniweb_secret", patience=0)
        with pytest.raises(CannotReach, match="cannot be reached: Connection refused") as caught:
            client.change("POST", "experiments/x/actions/resume/")
    assert not isinstance(caught.value, MayBeDone)


def test_who_waits_is_told_once_what_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "FIRST_PAUSE", 0.01)
    told: list[str] = []
    client = Client(server.address, "nniweb_secret", on_wait=told.append)
    server.answers = [AWAY, AWAY]
    assert client.experiment("abc123abc123").name == "mice"
    assert told == ["The database cannot be reached. The request is repeated for up to 60 s; Ctrl-C ends that."]


def test_refusals_carry_sentence_field_and_line(server: Server, client: Client) -> None:
    server.answers = [Answer(400, {"errors": [{"field": "trialConcurrency", "message": "must be at least 1.", "line": 3,
                                               "column": 5}, {"field": "tuner", "message": "is missing."}]})]
    with pytest.raises(Refused) as caught:
        client.experiment("abc123abc123")
    assert [(error.field, error.message, error.line) for error in caught.value.errors] == [
        ("trialConcurrency", "must be at least 1.", 3), ("tuner", "is missing.", None)]
    assert str(caught.value) == "line 3, column 5: trialConcurrency: must be at least 1.\ntuner: is missing."


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (409, Conflict)])
def test_what_is_not_there_and_what_cannot_be_now_are_errors_of_their_own(server: Server, client: Client, status: int,
                                                                         kind: type[Refused]) -> None:
    server.answers = [Answer(status, {"errors": [{"field": "", "message": "No."}]})]
    with pytest.raises(kind, match="No."):
        client.get("experiments/abc123abc123/")


@pytest.mark.parametrize("answer", [Answer(200, "<html>Log in", "text/html"), Answer(404, "<html>Not found"),
                                    Answer(302, "", headers={"Location": "https://elsewhere.example/"})])
def test_an_answer_of_something_else_is_said_to_be_so_and_no_token_follows_a_redirect(
        server: Server, client: Client, answer: Answer) -> None:
    server.answers = [answer]
    with pytest.raises(CannotReach, match=r"Check that the address is|Give the address of that server"):
        client.experiment("abc123abc123")
    assert server.asked("GET") == 1


def test_commands_end_with_4_where_no_server_is_and_with_130_after_ctrl_c(
        server: Server, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNIWEB_TOKEN", "nniweb_secret")
    monkeypatch.setattr(commands, "Client", lambda server, **_: Client(server, "nniweb_secret", patience=0))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        said = StringIO()
        assert commands.run(["experiments", "list", "--server", f"http://127.0.0.1:{nobody.getsockname()[1]}"],
                            err=said) == 4
    assert "cannot be reached: Connection refused" in said.getvalue()

    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands.Follower, "follow", interrupted)
    server.answers = [Answer(200, {"results": [EXPERIMENT], "next": None})]
    out = StringIO()
    assert commands.run(["experiments", "follow", "abc123abc123", "--server", server.address], out=out) == 130
    assert "The experiment continues" in out.getvalue()


def test_an_experiment_that_is_not_there_is_named(server: Server, client: Client) -> None:
    server.answers = [Answer(404, {"errors": [{"field": "", "message": "There is no such thing."}]})]
    with pytest.raises(NotFound, match=f"{server.address} has no experiment abc123abc123, or you may not see it"):
        client.experiment("abc123abc123")
    assert repr(client) == f"<Client of {server.address}>"
    assert Client(f"{server.address}/api/v1/", "nniweb_secret").server == server.address


def test_an_id_that_is_none_is_not_asked_for(server: Server, client: Client) -> None:
    with pytest.raises(NotFound):
        client.experiment("../users")
    assert server.requests == []


@pytest.mark.parametrize("path", ["../../../../../api/v1/account", "%2e%2e/%2E%2E/x", "trial-jobs/./x", "a//b", "..",
                                  "trial-jobs?x", "trial-jobs#x", "a\\..\\b"])
def test_a_request_of_nni_cannot_leave_its_experiment(server: Server, client: Client, path: str) -> None:
    with pytest.raises(NotFound, match="is no address of NNI's interface"):
        client.nni("DELETE", "abc123abc123", path)
    assert server.requests == []
    assert client.nni("GET", "abc123abc123", "trial-log/abc123abc123/trial.log").ok
    [request] = server.requests
    assert request.path == "/nni/abc123abc123/api/v1/nni/trial-log/abc123abc123/trial.log"


@pytest.mark.parametrize("may_repeat", [True, False])
def test_a_value_that_json_does_not_have_is_said_at_once_and_nothing_is_sent(
        server: Server, client: Client, may_repeat: bool) -> None:
    with pytest.raises(ClientError, match="cannot be written as JSON: .* Nothing was sent") as wrong:
        client.change("PATCH", "experiments/abc/", {"max_duration": float("nan")}, may_repeat=may_repeat)
    assert not isinstance(wrong.value, CannotReach)
    assert not server.requests


def test_a_token_that_is_none_is_refused_without_repeating_it_and_one_with_a_line_end_is_taken(server: Server) -> None:
    with pytest.raises(TokenTrouble) as wrong:
        Client(server.address, token="first\nsecond")
    assert "first" not in str(wrong.value)
    Client(server.address, token="nniweb_secret\n").account()
    assert server.requests[-1].headers["Authorization"] == "Token nniweb_secret"


def test_output_is_that_of_one_attempt_also_where_the_next_one_begins_meanwhile(server: Server, client: Client) -> None:
    part = {"attempt": 1, "stream": "stdout", "gaps": [], "size": 8}
    server.answers = [Answer(200, {**part, "offset": 0, "text": "half", "next_offset": 4}),
                      Answer(200, {**part, "offset": 4, "text": "half", "next_offset": 8}),
                      Answer(200, {**part, "offset": 8, "text": "", "next_offset": 8})]
    assert Trial(client, {"id": "abc"}).output() == "halfhalf"
    assert [request.query.get("attempt") for request in server.requests] == [None, "1", "1"]
