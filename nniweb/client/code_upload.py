"""An experiment's file and its code on their way to a server: what is sent, in which form, and how far it is."""

from __future__ import annotations

import io
import json
import os
import posixpath
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from nniweb.client.errors import ClientError
from trainingservice.code.code_archive import CodeEntry, CodeRefused, code_tree, write_archive
from trainingservice.limited_yaml import YamlReading, YamlRefused
from trainingservice.words.spellings import fold

#: Called with the bytes that were sent and those there are.
Progress = Callable[[int, int], None]

#: Where a file says which folder holds the code, and which file the search space: NNI's v2 and v1 forms.
_CODE_PLACES = (("trialCodeDirectory",), ("trainingService", "trialCodeDirectory"), ("trial", "codeDir"))
#: Groups of options, which name folders for roles on some platforms, and fields by which a role is known there.
_ROLE_SECTIONS = ("trainingService", "trialOptions")
_ROLE_LISTS = (fold("taskRoles"),)
_OF_ROLES = {fold(name) for name in ("codeDirectory", "replicas", "dockerImage")}
#: Names of folders in an archive.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_SPACE_PLACES = (("searchSpaceFile",), ("searchSpacePath",))


@dataclass(frozen=True)
class PreparedLaunch:
    """``config``: the file's text, its paths as they are in the archive. ``entries``: what the archive holds."""

    config: str
    entries: list[CodeEntry]

    def write(self, stream: IO[bytes]) -> None:
        """Write the archive (tar.gz). Raises ClientError."""
        try:
            write_archive(self.entries, stream)  # type: ignore[arg-type]  # a binary file
        except CodeRefused as error:
            raise ClientError(str(error)) from None


def read_config(path: str | os.PathLike[str]) -> str:
    """The text of an experiment's file. Raises ClientError."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ClientError(f"{path} is not UTF-8 text.") from None


def prepare(text: str, base: Path, code: Path | None = None, files: Mapping[str, Path] | None = None
            ) -> PreparedLaunch:
    """What to send for the text of a file whose relative paths start at ``base``.

    The code folder (the file's own, ``base`` where it names none, or ``code``) becomes the top of the archive, less
    what ``.nniignore`` names. Where roles name different folders, each is a folder at the top. The file with the
    search space is put there too where it lies elsewhere. The text stays as it is but for paths that are different
    there. A text that is no YAML is sent as it is, for the server to say what is wrong with it. Where the code is
    in the image nothing but that file is sent. ``files`` are added under these names, in place of the folder's own.
    Raises ClientError.
    """
    values = _Scalars(text)
    is_in_image = values.says_code_in_image()
    folder_node = None if is_in_image else values.find(_CODE_PLACES)
    folder = code if code is not None else base
    if code is None and folder_node is not None:
        folder = base / Path(folder_node.value).expanduser()
    if values.is_unreadable:
        return PreparedLaunch(text, [])
    parts: dict[str, Path] = {}
    if code is None:
        folder, parts = _folders_of_roles(values, base, folder, folder_node)
    try:
        entries = [] if is_in_image else code_tree(folder.expanduser().resolve(), parts, keep_links=False)
    except CodeRefused as error:
        raise ClientError(str(error)) from None
    if folder_node is not None and not parts:
        for place in _CODE_PLACES:  # NNI's Python module names the folder in two places
            node = values.find((place,))
            if node is not None and os.path.normpath(node.value) == os.path.normpath(folder_node.value):
                values.put(node, ".")
    space_node = values.find(_SPACE_PLACES)
    if space_node is not None:
        space = base / Path(space_node.value).expanduser()
        if space.is_file():  # the server names the field where it is not there
            values.put(space_node, _name_of(space, None if parts else folder.expanduser(), entries))
    added = files or {}
    entries = [entry for entry in entries if entry.name not in added]
    entries += [CodeEntry(name, path.resolve(), 0o644, path.stat().st_size) for name, path in added.items()]
    return PreparedLaunch(values.text(), sorted(entries, key=lambda entry: entry.name.split("/")))


def _folders_of_roles(values: _Scalars, base: Path, folder: Path, folder_node: yaml.ScalarNode | None
                      ) -> tuple[Path, dict[str, Path]]:
    """The code folder, and, where roles name different ones, what each is called in the archive; the text names those
    then. As the server reads it: what a role does not name is ``folder`` if the file names that, or what all others
    name.
    """
    named = [(name, node, (base / Path(node.value).expanduser()).resolve())
             for name, node in values.roles() if node is not None]
    if not named:
        return folder, {}
    default = folder.resolve() if folder_node is not None and len(named) < len(values.roles()) else None
    folders = [path for _, _, path in named] + ([] if default is None else [default])
    if len(set(folders)) == 1:
        for _, node, _ in named:
            values.put(node, ".")
        return folders[0], {}
    names: dict[Path, str] = {}
    for name, _, path in named:
        if path not in names:
            is_free = _PLAIN_NAME.fullmatch(name) and name not in names.values()
            names[path] = name if is_free else f"role-{len(names) + 1}"
    if default is not None and default not in names:
        names[default] = "code" if "code" not in names.values() else f"role-{len(names) + 1}"
    for _, node, path in named:
        values.put(node, names[path])
    if folder_node is not None:
        values.put(folder_node, "." if default is None else names[default])
    return folder, {name: path for path, name in names.items()}


def _name_of(space: Path, folder: Path | None, entries: list[CodeEntry]) -> str:
    """Under which name the file lies in the archive; it is added where it does not. ``folder``: the archive's top."""
    taken = {entry.name: entry.source for entry in entries}
    real, root = space.resolve(), None if folder is None else folder.resolve()
    if root is None and (found := next((name for name, source in taken.items() if source == real), None)):
        return found
    if root is not None and real.is_relative_to(root) and taken.get(inner := real.relative_to(root).as_posix()) == real:
        return inner
    name = space.name
    while name in taken and taken[name].resolve() != real:
        name = f"of-search-space-{name}"
    if name not in taken:
        entries.append(CodeEntry(name, real, 0o644, real.stat().st_size))
    return name


def _fields_of(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """The fields of a group by their folded names; {} for anything else."""
    return {fold(str(name.value)): value for name, value in node.value if isinstance(name, yaml.ScalarNode)} \
        if isinstance(node, yaml.MappingNode) else {}


def _without_tabs(text: str) -> str:
    """JSON with a space for each tab, which YAML does not take there; none stands in a text. Other texts as they are.
    """
    if "\t" in text and text.lstrip("\ufeff \t\r\n").startswith("{"):
        with suppress(ValueError, RecursionError):
            json.loads(text.removeprefix("\ufeff"))
            return text.replace("\t", " ")
    return text


class _Scalars:
    """Texts in a YAML mapping that can be replaced where they stand, so that lines and comments stay."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._changes: list[tuple[int, int, str]] = []
        try:
            self._root: Any = YamlReading(_without_tabs(text)).root()
        except YamlRefused:
            self._root = None
        self.is_unreadable = not isinstance(self._root, yaml.MappingNode)

    def find(self, places: tuple[tuple[str, ...], ...]) -> yaml.ScalarNode | None:
        """The first of these that is there and is a text."""
        for place in places:
            node = self._root
            for key in place:
                pairs = node.value if isinstance(node, yaml.MappingNode) else []
                node = next((value for name, value in pairs if fold(str(name.value)) == fold(key)), None)
            if (text := self._text_of(node)) is not None:
                return text
        return None

    def roles(self) -> list[tuple[str, yaml.ScalarNode | None]]:
        """The roles of the trials, and where each names its code folder."""
        found: list[tuple[str, dict[str, yaml.Node]]] = []
        for section in _ROLE_SECTIONS:
            for key, value in _fields_of(_fields_of(self._root).get(fold(section))).items():
                if key in _ROLE_LISTS and isinstance(value, yaml.SequenceNode):
                    found += [(getattr(fields.get("name"), "value", ""), fields)
                              for fields in map(_fields_of, value.value)]
                elif (fields := _fields_of(value)).keys() & _OF_ROLES:
                    found.append((key, fields))
        return [(str(name), self._text_of(fields.get(fold("codeDirectory")))) for name, fields in found]

    @staticmethod
    def _text_of(node: Any) -> yaml.ScalarNode | None:
        """The node where it is a text that can be replaced."""
        is_text = isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:str" and node.value \
            and node.style not in ("|", ">")  # those end behind their line
        return node if is_text else None

    def says_code_in_image(self) -> bool:
        """Whether trials run in a folder of their image."""
        platform = self.find((("trainingServicePlatform",),))
        return platform is not None and platform.value == "adl" or self.find(
            (("trainingService", "codeDirectoryInImage"), ("trialOptions", "codeDirectoryInImage"))) is not None

    def put(self, node: yaml.ScalarNode, path: str) -> None:
        if posixpath.normpath(node.value) != path:
            self._changes.append((node.start_mark.index, node.end_mark.index, json.dumps(path)))

    def text(self) -> str:
        text = self._text
        for start, end, new in sorted(self._changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text


class FormBody:
    """A multipart form with at most one file, read as it is sent: a large archive is never in memory."""

    def __init__(self, fields: Mapping[str, str], archive: IO[bytes] | None, progress: Progress | None) -> None:
        self._boundary = secrets.token_hex(16)
        head = "".join(self._head(name) + f"\r\n{value}\r\n" for name, value in fields.items())
        tail = f"--{self._boundary}--\r\n"
        self._pieces: list[IO[bytes]] = [io.BytesIO(head.encode())]
        if archive is not None:
            start = self._head("code", '; filename="code.tar.gz"') + "Content-Type: application/gzip\r\n\r\n"
            self._pieces += [io.BytesIO(start.encode()), archive]
            tail = f"\r\n{tail}"
        self._pieces.append(io.BytesIO(tail.encode()))
        self._size = sum(piece.seek(0, io.SEEK_END) for piece in self._pieces)
        self._progress = progress
        self._sent = 0
        for piece in self._pieces:
            piece.seek(0)

    @property
    def content_type(self) -> str:
        return f"multipart/form-data; boundary={self._boundary}"

    def __len__(self) -> int:
        return self._size

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes (less than 0: a whole piece); b"" at the end."""
        read = b""
        while self._pieces and not (read := self._pieces[0].read(size)):
            self._pieces.pop(0)
        self._sent += len(read)
        if self._progress is not None and read:
            self._progress(self._sent, self._size)
        return read

    def _head(self, name: str, more: str = "") -> str:
        return f'--{self._boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n'
