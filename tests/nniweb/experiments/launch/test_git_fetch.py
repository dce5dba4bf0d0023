"""Code from Git servers: what arrives, what is refused, and what git says where it fails."""

from __future__ import annotations

import ipaddress
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nniweb.experiments.clusters.public_addresses import is_public
from nniweb.experiments.errors import Refused
from nniweb.experiments.launch import git_fetch
from nniweb.experiments.launch.git_fetch import FetchFailed, FetchLimits, fetch_code
from nniweb.experiments.launch.git_source import GitSource, read_git_source
from tests.fakes.git_server import GitServer
from tests.fakes.ssh_machine import SshMachine

HERE = FetchLimits(10_000_000, 60, private_addresses=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with GitServer(tmp_path_factory.mktemp("git")) as server:
        yield server


@pytest.fixture(autouse=True)
def trusted(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("GIT_SSL_CAINFO", str(server.certificate))
    yield
    server.password, server.hold = "", None


def fetch(source: GitSource, scratch: Path, token: str = "", limits: FetchLimits = HERE,
          stop: threading.Event | None = None):
    return fetch_code(source, token, scratch / "fetch", limits, stop or threading.Event())


def refused(source: GitSource, scratch: Path, **more) -> str:
    with pytest.raises(FetchFailed) as failed:
        fetch(source, scratch, **more)
    return str(failed.value)


def test_the_default_branch_arrives_without_its_history_and_without_git_s_own_files(server, tmp_path) -> None:
    server.commit("plain", {"old.py": "1"})
    commit = server.commit("plain", {"train.py": "print(1)", "src/a.py": "2", "run.sh": "#!/bin/sh\n"},
                           links={"again.py": "train.py"}, executable=("run.sh",))
    fetched = fetch(GitSource(server.url("plain")), tmp_path)
    names = sorted(str(path.relative_to(fetched.folder)) for path in fetched.folder.rglob("*"))
    assert (fetched.commit, names) == (commit, ["again.py", "run.sh", "src", "src/a.py", "train.py"])
    assert os.access(fetched.folder / "run.sh", os.X_OK)
    assert (fetched.folder / "again.py").read_text() == "print(1)"


def test_a_branch_a_commit_and_a_folder_are_fetched(server, tmp_path) -> None:
    first = server.commit("refs", {"src/a.py": "first"})
    second = server.commit("refs", {"src/a.py": "second", "other.py": "x"})
    server.commit("refs", {"a.py": "beside"}, branch="side/way")
    assert (fetch(GitSource(server.url("refs"), "side/way"), tmp_path).folder / "a.py").read_text() == "beside"
    assert fetch(GitSource(server.url("refs"), "main"), tmp_path).commit == second != first
    inner = fetch(GitSource(server.url("refs"), second, "src"), tmp_path)
    assert [path.name for path in inner.folder.iterdir()] == ["a.py"]
    assert not (inner.folder.parent / "other.py").exists(), "only the folder is written"


def test_git_s_own_words_say_why_there_is_nothing(server, tmp_path) -> None:
    assert "not found" in refused(GitSource(server.url("nothing")), tmp_path)
    server.commit("words", {"a": "1"})
    message = refused(GitSource(server.url("words"), "no-such-branch"), tmp_path)
    assert "git says:" in message
    assert "no-such-branch" in message
    assert "no folder deep/down" in refused(GitSource(server.url("words"), "", "deep/down"), tmp_path)


def test_a_token_opens_what_is_closed_and_is_never_shown(server, tmp_path) -> None:
    server.commit("closed", {"a": "1"})
    server.password = "sesame-7"
    assert "could not read Username" in refused(GitSource(server.url("closed")), tmp_path)
    wrong = refused(GitSource(server.url("closed")), tmp_path, token="guess-9")
    assert "git says" in wrong
    assert "guess-9" not in wrong
    named = server.url("closed").replace("https://", "https://me@")
    assert fetch(GitSource(named), tmp_path, token="sesame-7").commit
    assert "sesame" not in "".join(str(path) + path.read_text(errors="replace")
                                   for path in tmp_path.rglob("*") if path.is_file())


def test_redirects_are_not_followed(server, tmp_path) -> None:
    server.commit("elsewhere", {"a": "1"})
    message = refused(GitSource(server.url("moved/elsewhere")), tmp_path)
    assert "redirects to another one, which is not followed" in message


def test_a_host_with_a_private_address_is_not_even_asked(server, tmp_path) -> None:
    server.requests.clear()
    for url in (server.url("plain"), server.url("plain").replace("127.0.0.1", "localhost"), "ssh://git@[::1]/code"):
        message = refused(GitSource(url), tmp_path, limits=FetchLimits(10_000_000, 60))
        assert "not a public internet address" in message
        assert "NNIWEB_GIT_PRIVATE_ADDRESSES" in message
    assert server.requests == []


@pytest.mark.parametrize(("address", "public"), [
    ("93.184.216.34", True), ("2606:4700::1111", True), ("10.0.0.1", False), ("169.254.169.254", False),
    ("100.64.0.1", False), ("0.0.0.0", False), ("224.0.0.1", False), ("fe80::1", False), ("fd00::1", False),
    ("::ffff:127.0.0.1", False), ("::ffff:93.184.216.34", True), ("64:ff9b::a00:1", False), ("2002:7f00:1::", False),
    ("64:ff9b::5db8:d822", True), ("2002:5db8:d822::", True), ("9.255.255.255", True), ("223.255.255.255", True),
    *((address, False) for address in (
        "192.0.0.0", "192.0.0.8", "192.0.0.170", "192.0.0.255", "192.0.2.1", "192.88.99.1", "198.18.0.1",
        "198.19.255.255", "198.51.100.1", "203.0.113.1", "240.0.0.1", "255.255.255.255", "100.127.255.255",
        "172.31.255.255", "::", "::1",
        "::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "3fff::1", "5f00::1", "fec0::1", "ff02::1",
        "4000::1", "::ffff:192.0.0.8", "64:ff9b::c000:8", "2002:c000:8::1", "2001:0:a00:1::"))])
def test_what_counts_as_public(address, public) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


def test_too_much_and_too_long_end_at_the_limits(server, tmp_path) -> None:
    server.commit("large", {"data.bin": os.urandom(300_000)})
    assert "larger than 0 MB" in refused(GitSource(server.url("large")), tmp_path,
                                         limits=FetchLimits(100_000, 60, private_addresses=True))
    server.commit("bomb", {"zeros": b"\0" * 2_000_000})
    assert "2 MB in total" in refused(GitSource(server.url("bomb")), tmp_path,
                                      limits=FetchLimits(1_000_000, 60, private_addresses=True))
    server.hold = threading.Event()
    assert "did not finish within 0.2 s" in refused(GitSource(server.url("large")), tmp_path,
                                              limits=FetchLimits(10**7, 0.2, private_addresses=True))
    stop = threading.Event()
    stop.set()
    assert "shutting down" in refused(GitSource(server.url("large")), tmp_path, stop=stop)


def test_what_is_written_is_what_was_counted_whatever_the_repository_s_attributes_say(server, tmp_path) -> None:
    files = {"ident": "$Id$" * 5000, "wide": "a" * 20_000, "lines": "\n" * 20_000,
             ".gitattributes": "ident ident\nwide working-tree-encoding=UTF-32\nlines text eol=crlf\n"}
    server.commit("attributes", files)
    folder = fetch(GitSource(server.url("attributes")), tmp_path).folder
    assert {name: (folder / name).stat().st_size for name in files} == {
        name: len(content) for name, content in files.items()}


def test_a_few_trees_that_stand_for_any_number_of_files_end_at_a_limit(server, tmp_path, monkeypatch) -> None:
    server.commit("trees", {"a": "1"})
    bare = server.path("trees")
    tree = server.git("rev-parse", "main^{tree}", cwd=bare)
    for _ in range(7):
        tree = server.git("mktree", cwd=bare, data="".join(
            f"040000 tree {tree}\t{number}\n" for number in range(10)).encode())
    commit = server.git("commit-tree", tree, "-m", "a bomb", cwd=bare)
    server.git("update-ref", "refs/heads/main", commit, cwd=bare)
    monkeypatch.setattr(git_fetch, "MOST_LISTED", 10_000)
    monkeypatch.setattr(git_fetch, "MOST_ENTRIES", 10**9)
    assert "list of the repository's files" in refused(GitSource(server.url("trees")), tmp_path)


def test_a_link_that_leads_out_of_the_code_is_refused(server, tmp_path) -> None:
    for goal in ("/etc/passwd", "../../outside", ".."):
        server.commit("links", {"inner/a": "1"}, links={"inner/leak": goal})
        message = refused(GitSource(server.url("links"), "", "inner"), tmp_path)
        assert "The link leak in the repository points out" in message


def test_over_ssh_the_known_hosts_and_keys_of_the_server_s_user_count(server, tmp_path, monkeypatch) -> None:
    server.commit("by-ssh", {"a.py": "1"})
    with SshMachine(tmp_path / "ada") as machine:
        # who runs the test keeps keys and known hosts of their own: another ssh in front of the real one names others
        ssh, known = shutil.which("ssh"), tmp_path / "known_hosts"
        wrapper = tmp_path / "programs" / "ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {ssh} -F none -o UserKnownHostsFile={known} -i {machine.key} "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        source = GitSource(f"ssh://{machine.user}@127.0.0.1:{machine.port}{server.path('by-ssh')}")
        assert "Host key verification failed" in refused(source, tmp_path)
        host_key = Path(f"{machine.host_keys[0]}.pub").read_text()
        known.write_text(f"[127.0.0.1]:{machine.port} {host_key}")
        assert [path.name for path in fetch(source, tmp_path).folder.iterdir()] == ["a.py"]


@pytest.mark.parametrize("url", [
    "https://git.example/me/code.git", "https://me@git.example:8443/code", "ssh://git@git.example/me/code.git",
    "git@git.example:me/code.git", "https://[2606:4700::1111]/code"])
def test_addresses_that_are_taken(url) -> None:
    assert read_git_source(f" {url} ", "release/1.2", "src/") == GitSource(url, "release/1.2", "src")


@pytest.mark.parametrize(("field", "value", "word"), [
    ("git_url", "http://git.example/code", "https:// or ssh://"), ("git_url", "file:///etc", "https:// or ssh://"),
    ("git_url", "ext::sh%20-c", "https:// or ssh://"), ("git_url", "git://git.example/code", "https:// or ssh://"),
    ("git_url", "https://me:sesame@git.example/code", "git_token"), ("git_url", "https://git.example", "repository"),
    ("git_url", "-oProxyCommand=x:y", "https:// or ssh://"), ("git_url", "ssh://-oProxyCommand=x/y", "host"),
    ("git_url", "https://git.example/a b", "spaces"), ("git_url", "git@-host:a", "https:// or ssh://"),
    ("git_url", "https://git.example/code?x=1", "path"), ("git_url", 7, "address"),
    ("git_ref", "--upload-pack=x", "branch"),
    ("git_ref", "a..b", "branch"), ("git_ref", "a:b", "branch"), ("git_folder", "/etc", "inside"),
    ("git_folder", "../x", "inside"), ("git_folder", ".git/hooks", "inside")])
def test_addresses_that_are_refused_are_not_repeated_with_their_secrets(field, value, word) -> None:
    fields = {"git_url": "https://git.example/code", "git_ref": "", "git_folder": "", field: value}
    with pytest.raises(Refused) as refused:
        read_git_source(*fields.values())
    [(named, message)] = refused.value.errors
    assert named == field
    assert word in message
    assert "sesame" not in message
