"""The MCP server on stdin and stdout, for the agent that starts it: ``nniweb mcp``. It speaks with a server over REST.

Needs neither Django nor settings. stdout belongs to the protocol; what people should read goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from nniweb.client.connection import Client
from nniweb.client.errors import ClientError
from nniweb.storage.data_folder import read_address_file
from nniweb.storage.own_files import default_data_folder

#: Seconds for which a request is tried again while the server is away: an agent waits for each answer.
PATIENCE = 20.0
HOW_TO_INSTALL = ("The MCP server needs the package mcp, which is not installed. Install it: python -m pip install "
                  "'nniweb[mcp]' (in a checkout: -r requirements/mcp.txt)")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nniweb mcp", description=(
        "Serve the Model Context Protocol on stdin and stdout, for an agent that starts this program. Its tools use a "
        "server of NNI Web over REST, with your token."))
    parser.add_argument("--server", help=(
        "the server's address (default: NNIWEB_SERVER, else the server of the data folder NNIWEB_DATA)"))
    parser.add_argument("--token-file", help=(
        "file with the token, mode 600 (default: NNIWEB_TOKEN, NNIWEB_TOKEN_FILE or ~/.config/nniweb/token)"))
    parser.add_argument("--ca-file", help=(
        "PEM file with the authority behind the server's certificate (default: NNIWEB_CA_FILE)"))
    return parser


def run(arguments: list[str]) -> int:
    """Serve until stdin ends. Returns the exit status: 1 where it cannot begin, 130 after Ctrl-C."""
    options = make_parser().parse_args(arguments)
    try:
        client = Client(options.server or os.environ.get("NNIWEB_SERVER") or _own_address(),
                        token_file=options.token_file, ca_file=options.ca_file, patience=PATIENCE)
    except ClientError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return serve(client)


def _own_address() -> str | None:
    """Of the server that uses the data folder on this machine; None where none does."""
    folder = Path(os.environ.get("NNIWEB_DATA") or default_data_folder()).expanduser()
    urls = read_address_file(folder / "server.json").get("urls") or [None]
    return urls[0] if isinstance(urls, list) and isinstance(urls[0], str) else None


def serve(client: Client) -> int:
    """The same with a client."""
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ModuleNotFoundError:
        sys.stderr.write(f"{HOW_TO_INSTALL}\n")
        return 1

    from nniweb.mcp_server.over_http import OverHttpRest
    from nniweb.mcp_server.server import make_server

    async def served() -> None:
        rest = OverHttpRest(client)
        server = make_server(lambda context: rest)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    try:
        anyio.run(served)
    except KeyboardInterrupt:  # of whoever tries it in a terminal
        return 130
    return 0
