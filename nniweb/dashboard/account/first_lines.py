"""What somebody types who has a new token: the package, three lines of Python, one of curl."""

from dataclasses import dataclass

#: The package with the client, as pyproject.toml names it.
PACKAGE = "nniweb"


@dataclass(frozen=True)
class FirstLines:
    """A piece to copy."""

    name: str
    title: str
    text: str


def first_lines(server: str, secret: str) -> list[FirstLines]:
    """For the address of this server as the person's browser knows it, without a slash at its end."""
    return [
        FirstLines("install", "Install the client", f"pip install {PACKAGE}"),
        FirstLines("python", "Python", "from nniweb.client import Client\n"
                                       f'client = Client("{server}", token="{secret}")\n'
                                       "print(client.experiments())"),
        FirstLines("curl", "curl", f"curl -H 'Authorization: Token {secret}' '{server}/api/v1/experiments/'")]
