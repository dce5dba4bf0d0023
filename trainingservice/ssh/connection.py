"""One SSH connection to one machine, through jump hosts if need be, with every refusal made a sentence."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko

from trainingservice.reasons import Reason
from trainingservice.ssh.bounded_transport import BoundedSftp, BoundedTransport
from trainingservice.ssh.host_keys import HostKeyStore
from trainingservice.ssh.login_settings import SshLoginSettings
from trainingservice.ssh.problems import MachineProblem, SessionBroke
from trainingservice.ssh.proxy_command import CommandSocket
from trainingservice.ssh.route import Hop, way_to

logger = logging.getLogger(__name__)
logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its tracebacks say less than our sentences

#: Seconds between signs of life on the connection.
KEEPALIVE = 15
#: How much one command may print.
MOST_BYTES = 16 * 1024 * 1024
#: Milliseconds after which sent bytes that nobody acknowledged end the connection.
UNACKNOWLEDGED = 30_000
#: Seconds one SFTP operation may hang.
SFTP_TIMEOUT = 60.0
#: Words by which paramiko's errors about key files are known.
_KEY_WORDS = ("invalid key", "private key", "key file", "passphrase", "decrypt", "unpack")


class Connection:
    """An open connection. Channels and SFTP may be used from any thread."""

    def __init__(self, client: paramiko.SSHClient, jumps: list[paramiko.SSHClient], name: str, note: str) -> None:
        self._client, self._jumps, self.name = client, jumps, name
        #: What to tell a person about the host key, "" mostly.
        self.note = note
        self._sftp: paramiko.SFTPClient | None = None
        self._sftp_lock = threading.RLock()

    @property
    def is_alive(self) -> bool:
        transport = self._client.get_transport()
        return transport is not None and transport.is_active()

    def channel(self, timeout: float) -> paramiko.Channel:
        """A new session channel. Raises MachineProblem."""
        transport = self._client.get_transport()
        try:
            if transport is None:
                raise paramiko.SSHException("it is closed")
            return transport.open_session(timeout=timeout)
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise MachineProblem(f"{self.name} refuses another session: {error or type(error).__name__}.") from error

    def run(self, command: str, text: str = "", timeout: float = 20.0) -> tuple[int, str, str]:
        """Run a command with ``text`` as its input; its exit status and outputs.

        Raises MachineProblem, and of its kinds SessionBroke where the command may have been run.
        """
        status, output, errors = self.run_bytes(command, text.encode(), timeout)
        return status, output.decode(errors="replace"), errors

    def run_bytes(self, command: str, content: bytes, timeout: float) -> tuple[int, bytes, str]:
        """As ``run``, with an input and an output that need not be text."""
        channel = self.channel(timeout)
        try:
            with ended_after(channel, timeout):
                channel.exec_command(command)
                channel.sendall(content)
                channel.shutdown_write()
                output = self._read(channel.makefile("rb"))
                errors = self._read(channel.makefile_stderr("rb"))
                status = channel.recv_exit_status()
                if status == -1 and not channel.eof_received:  # a command that was killed ends its output all the same
                    raise EOFError("it ended before the command")
            return status, output, errors.decode(errors="replace")
        except (paramiko.SSHException, OSError, EOFError) as error:
            what = "did not answer in time" if isinstance(error, TimeoutError) else f"broke the session ({error})"
            raise SessionBroke(f"{self.name} {what} while a command ran there.") from error
        finally:
            channel.close()

    def _read(self, stream: Any) -> bytes:
        """What a command prints. Raises SessionBroke where that is too much: the rest is not waited for."""
        printed: bytes = stream.read(MOST_BYTES + 1)
        if len(printed) > MOST_BYTES:
            raise SessionBroke(f"A command on {self.name} printed more than {MOST_BYTES // 1024 ** 2} MB. Check the "
                               "shell profile of the user there.")
        return printed

    @contextlib.contextmanager
    def sftp(self) -> Any:
        """The connection's one SFTP session, for one thread at a time. A broken one is opened anew the next time."""
        with self._sftp_lock:
            try:
                if self._sftp is None:
                    channel = self.channel(SFTP_TIMEOUT)
                    channel.settimeout(SFTP_TIMEOUT)
                    with ended_after(channel, SFTP_TIMEOUT):
                        channel.invoke_subsystem("sftp")
                        self._sftp = BoundedSftp(channel)
                yield self._sftp
            except (paramiko.SSHException, EOFError, OSError) as error:
                if not is_broken(error):
                    raise
                sftp, self._sftp = self._sftp, None
                if sftp is not None:
                    sftp.close()
                raise MachineProblem(f"The file transfer with {self.name} broke off: {error or type(error).__name__}. "
                                     "If this stays so, check the line Subsystem sftp in its sshd_config.") from error

    def close(self) -> None:
        """End it. What waits on it ends with errors. May be repeated."""
        for client in (self._client, *reversed(self._jumps)):
            with contextlib.suppress(Exception):
                client.close()


@contextlib.contextmanager
def ended_after(channel: paramiko.Channel, seconds: float) -> Iterator[None]:
    """What is done with the channel may take so long; then it is closed. Raises TimeoutError, MachineProblem.

    Paramiko waits without an end for the answer to a request and for an exit status, and with a new patience for each
    byte.
    """
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        with contextlib.suppress(EOFError, OSError, paramiko.SSHException):  # the connection has just gone
            channel.close()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        timer.start()
    except (RuntimeError, MemoryError) as error:
        raise MachineProblem("The server has no thread to spare for a session of SSH.") from error
    try:
        yield
    except Exception as error:
        if is_late.is_set():
            raise TimeoutError(f"it took more than {seconds:g} s") from error
        raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError(f"it took more than {seconds:g} s")


def is_broken(error: BaseException) -> bool:
    """Whether an error of SFTP means that the session is of no more use (and says nothing of the file)."""
    return (isinstance(error, paramiko.SSHException | EOFError | TimeoutError | ConnectionError)
            or (isinstance(error, OSError) and error.errno is None and "closed" in str(error).lower()))


def connect(settings: SshLoginSettings, keys: HostKeyStore, timeout: float = 15.0) -> Connection:
    """Connect and log in. Raises MachineProblem with a sentence that says what to do."""
    hops = way_to(settings)
    clients: list[paramiko.SSHClient] = []
    notes: list[str] = []
    try:
        for number, hop in enumerate(hops):
            is_target = number == len(hops) - 1
            client, said = _connect_hop(hop, settings, is_target, clients[-1] if clients else None, keys, timeout)
            clients.append(client)
            notes += [said] if said else []
    except BaseException:
        for client in reversed(clients):
            client.close()
        raise
    return Connection(clients[-1], clients[:-1], settings.host, " ".join(notes))


def _connect_hop(hop: Hop, settings: SshLoginSettings, is_target: bool, before: paramiko.SSHClient | None,
                 keys: HostKeyStore, timeout: float) -> tuple[paramiko.SSHClient, str]:
    """The hop's connection, and what a person should know of its host key."""
    expected = (settings.host_key if is_target else None) or keys.demanded(hop.names)
    refused: list[str] = []
    first: MachineProblem | None = None
    while True:
        policy = _Policy(lambda key: keys.check(hop.key_name, key, expected))
        try:
            client = _try_hop(hop, settings, is_target, before, keys, timeout, policy, refused, expected)
        except MachineProblem as problem:
            if first is not None and policy.seen is None:
                raise first from None  # it has no key of yet another type
            first = first or problem
            if problem.check != "host_key" or policy.seen is None or expected is None:
                raise first from None
            refused += _algorithms(policy.seen)  # the fingerprint may be that of its key of another type
        else:
            return client, policy.note


def _try_hop(hop: Hop, settings: SshLoginSettings, is_target: bool, before: paramiko.SSHClient | None,
             keys: HostKeyStore, timeout: float, policy: _Policy, refused: list[str],
             expected: str | None) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(policy)
    # so that a key is negotiated of which something is known
    known = [] if expected is not None else [name for key in keys.known(hop.key_name)
                                             for name in _algorithms(key.get_name())]
    sock: socket.socket | paramiko.Channel | None = None
    try:
        sock = _socket(hop, timeout) if before is None else _tunnel(before, hop, timeout)
        client.connect(hop.key_name, 22, username=hop.user, sock=sock, timeout=timeout, banner_timeout=timeout,
                       auth_timeout=timeout, channel_timeout=timeout, disabled_algorithms={"keys": refused},
                       transport_factory=functools.partial(BoundedTransport, preferred_keys=known),
                       **_credentials(settings, hop, is_target))
        transport = client.get_transport()
        assert transport is not None
        transport.set_keepalive(KEEPALIVE)
        return client
    except Exception as error:
        transport = client.get_transport()
        why = ""
        if isinstance(sock, CommandSocket) and not (transport is not None and transport.remote_version):
            why = sock.why_it_ended()
        client.close()
        if sock is not None:
            sock.close()
        if why:
            raise MachineProblem(f"The ProxyCommand in ~/.ssh/config for {hop.written} does not connect: {why} Correct "
                                 "it, or try it by hand.") from error
        raise _sentence(error, hop, settings, is_target) from error


class _Policy(paramiko.MissingHostKeyPolicy):
    """Asks our own store about each key; paramiko knows none by itself."""

    def __init__(self, check: Callable[[paramiko.PKey], str]) -> None:
        self._check = check
        self.note = ""
        #: Type of the key that was checked, None before.
        self.seen: str | None = None

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        self.seen = key.get_name()
        self.note = self._check(key)


def _algorithms(key_type: str) -> list[str]:
    """The signature algorithms of a key's type, as they are negotiated."""
    return ["ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"] if key_type == "ssh-rsa" else [key_type]


def _socket(hop: Hop, timeout: float) -> socket.socket:
    if hop.command:
        return CommandSocket(hop.command)
    sock = socket.create_connection((hop.host, hop.port), timeout)
    # a line for the agent must not wait for the acknowledgement of the one before
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED)
    return sock


def _tunnel(before: paramiko.SSHClient, hop: Hop, timeout: float) -> paramiko.Channel:
    transport = before.get_transport()
    assert transport is not None
    try:
        return transport.open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=timeout)
    except paramiko.ChannelException as error:
        why = ("it forbids forwarding (AllowTcpForwarding in its sshd_config)" if error.code == 1
               else "it cannot reach that host")
        raise MachineProblem(f"The jump host before {hop.host} does not connect to it: {why}.",
                             needs_person=error.code == 1) from error


def _credentials(settings: SshLoginSettings, hop: Hop, is_target: bool) -> dict[str, Any]:
    passphrase = settings.ssh_passphrase.get_secret_value() if settings.ssh_passphrase else None
    if is_target and settings.password is not None:
        return {"password": settings.password.get_secret_value(), "allow_agent": False, "look_for_keys": False}
    if settings.ssh_key_file is not None:
        return {"key_filename": str(settings.ssh_key_file), "passphrase": passphrase, "allow_agent": True,
                "look_for_keys": False}
    files = [str(Path(file).expanduser()) for file in hop.key_files if Path(file).expanduser().is_file()]
    return {"key_filename": files or None, "allow_agent": True, "look_for_keys": not files}


def _sentence(error: Exception, hop: Hop, settings: SshLoginSettings, is_target: bool) -> MachineProblem:
    """What happened and what to do, for a person who has never heard of paramiko."""
    name = f"{hop.host}:{hop.port}"
    if isinstance(error, MachineProblem):
        return error
    if isinstance(error, paramiko.PasswordRequiredException):
        return MachineProblem(f"The key for {name} is protected by a passphrase; set sshPassphrase, or load the key "
                              "into "
                              "the SSH agent.", "login", needs_person=True)
    if isinstance(error, paramiko.AuthenticationException):
        if "timeout" in str(error).lower():
            return MachineProblem(f"{name} did not finish the log-in in time.")
        tried = ("the password" if is_target and settings.password is not None else
                 f"the key {settings.ssh_key_file}" if settings.ssh_key_file is not None else
                 "the keys of the SSH agent and of ~/.ssh")
        return MachineProblem(f"{name} refuses the log-in of user {hop.user or 'the server'} with {tried}. Correct "
                              "user and credentials, or allow this log-in method in the machine's sshd.",
                              "login", needs_person=True)
    if isinstance(error, socket.gaierror):
        return MachineProblem(f"The host name {hop.host} cannot be resolved. Correct host, or the name service.")
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return MachineProblem(f"The key file {error.filename or settings.ssh_key_file} cannot be read "
                              f"({error.strerror}); correct sshKeyFile.", "login", needs_person=True)
    if isinstance(error, TimeoutError):
        return MachineProblem(f"{name} does not answer. It is switched off, or a firewall drops the packets.")
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ECONNREFUSED:
        return MachineProblem(Reason("connection_refused", said=(
            f"{name} refuses connections; start its sshd, or correct the port.")))
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return MachineProblem(f"{name} cannot be reached from here ({error}); check network and firewall.")
    if isinstance(error, ValueError | paramiko.SSHException) and settings.ssh_key_file is not None \
            and any(word in str(error).lower() for word in _KEY_WORDS):
        return MachineProblem(f"The key file {settings.ssh_key_file} cannot be opened ({error}); correct sshKeyFile or "
                              "sshPassphrase.", "login", needs_person=True)
    if isinstance(error, paramiko.SSHException) and "No authentication methods" in str(error):
        return MachineProblem(f"There is no key to log in to {name} with; set sshKeyFile or password, or load a key "
                              "into "
                              "the SSH agent.", "login", needs_person=True)
    return MachineProblem(f"The connection to {name} could not be made: {error or type(error).__name__}.")
