"""Whether PostgreSQL has become silent is asked once for all threads, and never taken from a statement that is slow."""

from nniweb.database.silent_postgresql import HEARD_SECONDS, PATIENCE, PATIENCE_IN_SILENCE, Silence


class Server:
    def __init__(self) -> None:
        self.now, self.asked, self.is_frozen = 0.0, 0, False

    def answers(self) -> bool:
        self.asked += 1
        return not self.is_frozen


def test_a_slow_statement_of_a_server_that_answers_goes_on() -> None:
    server = Server()
    silence = Silence(lambda: server.now)
    assert not silence.is_silent(server.answers)
    assert not silence.is_silent(server.answers)
    assert server.asked == 1, "a moment ago it was heard"
    server.now += HEARD_SECONDS
    assert not silence.is_silent(server.answers)
    assert (server.asked, silence.patience) == (2, PATIENCE)


def test_once_it_is_silent_nobody_waits_long_until_something_is_heard() -> None:
    server = Server()
    server.is_frozen = True
    silence = Silence(lambda: server.now)
    assert silence.is_silent(server.answers)
    server.now += 100
    assert silence.is_silent(server.answers)
    assert (server.asked, silence.patience) == (1, PATIENCE_IN_SILENCE)
    silence.heard()
    assert silence.patience == PATIENCE
    server.is_frozen = False
    assert not silence.is_silent(server.answers)
