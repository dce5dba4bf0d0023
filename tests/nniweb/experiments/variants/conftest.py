"""A code archive, and what variants of it come to. Nothing here needs a database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nniweb.experiments.variants.base_code import BaseCode
from nniweb.experiments.variants.changes import GivenVariant, Permission, changed_files, read_variant
from nniweb.experiments.variants.paths import PermittedPaths
from trainingservice.code.code_archive import CodeArchive, pack_code
from trainingservice.variants.code_variant import VariantContent

Vary = Callable[..., VariantContent]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> CodeArchive:
    root = tmp_path_factory.mktemp("variants").resolve()
    code = root / "code"
    for name, content in {
        "train.py": "import model\nlr = 0.1\nprint(lr)\n", "model.py": "layers = 1\n" * 6, "run.sh": "#!/bin/sh\n",
        "conf/a.yml": "x: 1", "conf/data.yml": "secret: 1\n", "windows.py": "a = 1\r\nb = 2\r\n",
        "déjà vu.py": "old\n", **{f"long{number}.py": "x" * 400_000 for number in range(3)},
    }.items():
        path = code / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    (code / "weights.bin").write_bytes(b"\x00\xff\x00")
    (code / "large.py").write_text("x" * 600_000)
    (code / "run.sh").chmod(0o755)
    (code / "link.py").symlink_to("train.py")
    (code / "linked").symlink_to("conf")
    return pack_code(code, root / "archives")


@pytest.fixture
def vary(archive: CodeArchive) -> Vary:
    def vary(patch: str | None = None, files: dict[str, str | None] | None = None, *, paths: tuple[str, ...] = ("*",),
             most_bytes: int = 64 * 1024) -> VariantContent:
        permission = Permission(PermittedPaths(paths), most_bytes)
        read = read_variant(GivenVariant(patch, None if files is None else tuple(files.items())), permission)
        return changed_files(read, BaseCode.read(Path(archive.path), archive.sha256, read.paths), permission)

    return vary
