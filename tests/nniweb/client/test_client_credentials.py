"""Where the client looks for the server and the token, and which it does not take."""

import os
from pathlib import Path

import pytest

from nniweb.client import TokenTrouble
from nniweb.client.credentials import find_token, server_address

NAMES = ("NNIWEB_SERVER", "NNIWEB_TOKEN", "NNIWEB_TOKEN_FILE", "NNIWEB_PLAIN_HTTP", "XDG_CONFIG_HOME")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def token_file(path: Path, text: str = "nniweb_secret\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_what_is_nearer_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token_file(tmp_path / "home" / ".config" / "nniweb" / "token", "of_the_home")
    assert find_token() == "of_the_home"
    monkeypatch.setenv("NNIWEB_TOKEN_FILE", str(token_file(tmp_path / "named", "of_the_named_file")))
    assert find_token() == "of_the_named_file"
    monkeypatch.setenv("NNIWEB_TOKEN", "of_the_environment")
    assert find_token() == "of_the_environment"
    assert find_token(token_file(tmp_path / "option", "of_the_option\n")) == "of_the_option"


def test_without_a_token_it_is_said_where_one_goes() -> None:
    with pytest.raises(TokenTrouble, match=r"no token in .*/home/.config/nniweb/token.*your account page.*600"):
        find_token()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_read_or_change_is_not_taken(tmp_path: Path, mode: int) -> None:
    file = token_file(tmp_path / "token", mode=mode)
    with pytest.raises(TokenTrouble, match=f"mode {mode:o}.*chmod 600 {file}") as caught:
        find_token(file)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "two words", "two\nlines", "ümlaut", "x" * 5000])
def test_what_is_no_token_is_not_sent(tmp_path: Path, text: str) -> None:
    with pytest.raises(TokenTrouble, match="contains no valid token"):
        find_token(token_file(tmp_path / "token", text))


def test_a_pipe_is_no_token_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(TokenTrouble, match="not a regular file"):
        find_token(tmp_path / "token")


def test_the_server_is_given_or_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenTrouble, match="NNIWEB_SERVER"):
        server_address(None)
    monkeypatch.setenv("NNIWEB_SERVER", "https://nni.example.org/lab/")
    assert server_address(None) == "https://nni.example.org/lab"
    assert server_address("http://127.0.0.1:8080/") == "http://127.0.0.1:8080"


@pytest.mark.parametrize("address", ["nni.example.org", "ftp://nni.example.org", "https://", "https://x:y", "https://[",
                                     "https://nni.example.org/?a=1"])
def test_an_address_that_is_none_gets_a_sentence(address: str) -> None:
    with pytest.raises(TokenTrouble, match="is not the address of a server"):
        server_address(address)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(TokenTrouble, match="must not contain a user name or a password") as caught:
        server_address("https://me:sesame@nni.example.org")
    assert "sesame" not in str(caught.value)


def test_a_token_crosses_no_network_in_the_clear_unless_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TokenTrouble, match="unencrypted"):
        server_address("http://192.0.2.7:8080")
    monkeypatch.setenv("NNIWEB_PLAIN_HTTP", "1")
    assert server_address("http://192.0.2.7:8080") == "http://192.0.2.7:8080"
