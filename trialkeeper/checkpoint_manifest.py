"""The manifest of a checkpoint: which files and folders it consists of, and of which chunks the files.

A checkpoint's id is the SHA-256 of the manifest's bytes, so that an id means one content and nothing else. What a right
manifest is stands here alone: the keeper that puts a checkpoint back and the servers that take one ask ``fault_of``.
"""

import hashlib
import json
from typing import Any, Dict, cast

from trialkeeper import contract
from trialkeeper.checkpoint_entry import Problem, is_name
from trialkeeper.folder_reader import is_below

#: The version of manifests that is understood.
VERSION = 1
#: Longest path of a file or folder, in characters.
LONGEST_PATH = 4096
_MOST_BYTES = 2 ** 63 - 1


def manifest_text(manifest: contract.Manifest) -> bytes:
    """The bytes that are hashed and sent."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode("ascii")


def read_manifest(text: bytes, checkpoint_id: str) -> contract.Manifest:
    """The manifest of these bytes. Raises Problem (``damaged``) where they are not what the id means, or lead out."""
    if hashlib.sha256(text).hexdigest() != checkpoint_id:
        raise Problem(contract.DAMAGED, "the manifest")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(contract.DAMAGED, "the manifest is not JSON") from error
    fault = fault_of(document)
    if fault:
        raise Problem(contract.DAMAGED, fault)
    return cast(contract.Manifest, document)


def size_of(manifest: contract.Manifest) -> int:
    """Bytes of its files."""
    return sum(file["size"] for file in manifest["files"])


def chunk_sizes(manifest: contract.Manifest) -> Dict[str, int]:
    """Hash -> bytes, of each chunk that its files consist of. ``manifest``: one without a fault."""
    return {sha256: _chunk_size(file["size"], number) for file in manifest["files"]
            for number, sha256 in enumerate(file["chunks"])}


def fault_of(document: Any) -> str:
    """What is wrong with a manifest, a sentence without its full stop; "" where nothing is."""
    if not isinstance(document, dict) or document.get("version") != VERSION:
        return "the manifest is not an object with version %d" % VERSION
    name, files, folders = document.get("name"), document.get("files"), document.get("folders")
    if not isinstance(name, str) or not is_name(name):
        return ("the manifest's name must be one part of a path, text of at most 255 bytes that does not begin with a "
                "dot, and not \"%s\"" % contract.LATEST_FILE)
    if not isinstance(files, list) or not isinstance(folders, list):
        return "the manifest's files and folders must be lists"
    if len(files) + len(folders) > contract.MAX_CHECKPOINT_FILES:
        return "a checkpoint must not have more than %d files and folders" % contract.MAX_CHECKPOINT_FILES
    sizes: Dict[str, int] = {}
    for file in files:
        fault = _fault_of_file(file, sizes)
        if fault:
            return fault
    if len(files) == 1 and files[0]["path"] == "":
        return "a checkpoint that is a single file has no folders" if folders else ""
    return _fault_of_paths([file["path"] for file in files], folders)


def _fault_of_file(file: Any, sizes: Dict[str, int]) -> str:
    """``sizes``: bytes of the chunks that were seen, by hash."""
    if not isinstance(file, dict):
        return "each of the manifest's files must be an object"
    path, size, mode, chunks = file.get("path"), file.get("size"), file.get("mode"), file.get("chunks")
    if not isinstance(path, str):
        return "the path of a file must be a text"
    of_file = "the file %s" % _shown(path)
    if type(size) is not int or not 0 <= size <= _MOST_BYTES or type(mode) is not int or not 0 <= mode <= 0o777:
        return "size or mode of %s is not a number that it can be" % of_file
    count = -(-size // contract.CHUNK_BYTES)
    if not isinstance(chunks, list) or len(chunks) != count:
        return "%s of %d bytes must have %d chunks" % (of_file, size, count)
    for number, sha256 in enumerate(chunks):
        if not is_hash(sha256):
            return "%s names a chunk that is no SHA-256" % of_file
        if sizes.setdefault(sha256, _chunk_size(size, number)) != _chunk_size(size, number):
            return "the chunk %s stands for two different numbers of bytes" % sha256
    return ""


def _fault_of_paths(files: Any, folders: Any) -> str:
    for path in files + folders:
        if not isinstance(path, str) or len(path) > LONGEST_PATH or not is_below(path):
            return "%s is not a path within the checkpoint" % _shown(path)
    paths, known = set(files) | set(folders), set(folders)
    if len(paths) < len(files) + len(folders):
        return "a path stands in the manifest twice"
    for path in paths:
        if "/" in path and path.rpartition("/")[0] not in known:  # so nothing lies below a file, either
            return "the folder of %s is not one of the manifest's folders" % _shown(path)
    return ""


def is_hash(value: Any) -> bool:
    """Whether it is a SHA-256 as it is written here: 64 digits, small letters."""
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")


def _chunk_size(size: int, number: int) -> int:
    return min(contract.CHUNK_BYTES, size - number * contract.CHUNK_BYTES)


def _shown(value: Any) -> str:
    return json.dumps(value)[:200]
