"""Files that appear whole or not at all, in folders in which others may write, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nniweb.client.errors import ClientError
from nniweb.client.written_file import write_whole


def test_a_link_that_somebody_has_put_beside_the_file_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("somebody's")
    (tmp_path / ".trials.csv.draft").symlink_to(elsewhere)
    write_whole(tmp_path / "trials.csv", [b"a,", b"b"])
    assert (tmp_path / "trials.csv").read_bytes() == b"a,b"
    assert elsewhere.read_text() == "somebody's"


def test_two_that_write_one_file_at_once_are_not_mixed(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first "
        write_whole(tmp_path / "trials.csv", [b"second"])
        assert (tmp_path / "trials.csv").read_bytes() == b"second"
        yield b"to its end"

    write_whole(tmp_path / "trials.csv", pieces())
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("trials.csv", b"first to its end")]


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "trials.csv").mkdir()
    with pytest.raises(ClientError, match="cannot be written"):
        write_whole(tmp_path / "trials.csv", [b"a"])
    assert [path.name for path in tmp_path.iterdir()] == ["trials.csv"]
