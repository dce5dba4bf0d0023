"""Whether a server could listen on a port of this machine."""

import socket

from nniweb.storage.own_files import START

HOW_TO_CHOOSE = "Choose another port with NNIWEB_PORT."


def why_no_port(host: str, port: int) -> str:
    """Why nobody can listen there now, with what to do; "" where one can. Listens for an instant to find out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        return (f"Port {port} on {host} cannot be used: {error.strerror}. Another program may be listening there. "
                f"Choose another port with NNIWEB_PORT, for example: NNIWEB_PORT={port + 1 if port < 65535 else 8081} "
                f"{START.partition(',')[0]}")
    except OverflowError:
        return f"{port} is not a valid port. Choose a port from 1 to 65535."
    return ""
