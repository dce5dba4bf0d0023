"""The files that one trial has instead of those of the experiment's code, laid over its own copy of that code."""

import base64
import binascii
import hashlib
import json
import os
import stat
import zlib
from typing import Any, Dict

from trialkeeper import contract
from trialkeeper.child_process import CannotStart


def lay_over(variant: contract.VariantDocument, folder: str, part: str = "") -> None:
    """Write the variant's files into ``folder``, which holds a copy of the code for this trial alone.

    ``part``: the folder of the code archive whose content ``folder`` is; "": all of it. Nothing is written through a
    link. Raises CannotStart, OSError.
    """
    root = os.path.realpath(folder)
    for path, content in sorted(_files_of(variant).items()):
        inner = path
        if part:
            top, _, inner = path.partition("/")
            if top != part:
                continue
        _put(root, inner, content)


def _files_of(variant: contract.VariantDocument) -> Dict[str, Any]:
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(base64.b64decode(variant["packed"], validate=True), contract.MAX_VARIANT_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise CannotStart("the code variant was refused: it is longer than %d bytes, or cut off"
                              % contract.MAX_VARIANT_BYTES)
        if hashlib.sha256(text).hexdigest() != variant["sha256"]:
            raise CannotStart("the code variant is damaged: its SHA-256 is not %s" % variant["sha256"])
        files = json.loads(text.decode())["files"]
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as error:
        raise CannotStart("the code variant cannot be read: %s" % error) from error
    return dict(files)


def _put(root: str, path: str, content: Any) -> None:
    """``content`` None: the file is removed."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise CannotStart("the code variant was refused: the path %s leaves the folder" % json.dumps(path))
    folder = root
    for part in parts[:-1]:
        folder = os.path.join(folder, part)
        if not os.path.lexists(folder) and content is not None:
            os.mkdir(folder, 0o755)
        elif os.path.islink(folder) or not os.path.isdir(folder):
            raise CannotStart("the code variant does not fit the code: %s is no folder there"
                              % json.dumps(os.path.relpath(folder, root)))
    goal = os.path.join(folder, parts[-1])
    is_there = os.path.lexists(goal)
    if is_there and not stat.S_ISREG(os.lstat(goal).st_mode):
        raise CannotStart("the code variant does not fit the code: %s is no plain file there" % json.dumps(path))
    if content is None and not is_there:
        raise CannotStart("the code variant does not fit the code: there is no %s to remove" % json.dumps(path))
    if is_there:
        os.remove(goal)
    if content is not None:
        mode = 0o755 if content["executable"] else 0o644
        with open(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as stream:
            stream.write(content["text"].encode("utf-8"))
            os.fchmod(stream.fileno(), mode)
