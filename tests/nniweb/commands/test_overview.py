"""What somebody reads who types the program's name alone."""

import pytest

from nniweb.command_line.completion import command_names
from nniweb.command_line.overview import COMMANDS
from nniweb.command_line.program import main


@pytest.mark.parametrize("asked", [[], ["help"], ["--help"], ["-h"]])
def test_the_name_alone_tells_the_commands_with_a_line_each(asked: list[str],
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    main(["/usr/bin/nniweb", *asked])
    said = capsys.readouterr().out
    assert said.startswith("usage: nniweb COMMAND ...")
    assert "  serve            start the web server and a worker\n" in said
    assert max(len(line) for line in said.splitlines()) < 120


def test_every_command_of_ours_is_named() -> None:
    named = {name for commands in COMMANDS.values() for name in commands}
    assert set(command_names()) <= named
