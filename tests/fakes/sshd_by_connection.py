"""Listen here, and serve each connection by a command that has it as its standard input and output.

    python sshd_by_connection.py 2222 ip netns exec far sshd -i -f config

So a machine in a network namespace is reached from this one without any link between the two. A link would be
a new interface here, and each browser that runs here breaks off what it is loading when the interfaces change.
"""

from __future__ import annotations

import socket
import subprocess
import sys


def main(port: int, command: list[str]) -> None:
    """For ever. Those that ended are reaped when the next one comes."""
    with socket.create_server(("127.0.0.1", port), backlog=100) as listening:
        while True:
            connection, _ = listening.accept()
            with connection:
                subprocess.Popen(command, stdin=connection, stdout=connection)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
