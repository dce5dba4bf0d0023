"""The source of a Python file as text whose pieces are exchanged without moving a line."""

from __future__ import annotations

import ast
import io
import re
import tokenize

_LINE_END = re.compile(r"\r\n|\r|\n")


class SourceText:
    """The text of a file, and the edits that were asked for; ``rewritten`` makes them.

    Raises SyntaxError where the declared encoding is unknown or none for files, UnicodeDecodeError where the bytes are
    not of it.
    """

    def __init__(self, source: bytes) -> None:
        self.encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        try:
            self.text = source.decode(self.encoding)
        except UnicodeDecodeError:
            raise
        except Exception as error:  # codecs that make no text of bytes raise what they like
            raise SyntaxError(f"{self.encoding} is no encoding of source files ({error})") from None
        try:
            is_kept = self.text.encode(self.encoding, "backslashreplace") == source
        except UnicodeError:
            is_kept = False
        if not is_kept:  # unicode_escape, for one, would make one line of the whole copy
            raise SyntaxError(f"the encoding {self.encoding} does not give the file's bytes again; save it in UTF-8")
        self._starts = [0, *(found.end() for found in _LINE_END.finditer(self.text))]
        first = _LINE_END.search(self.text)
        self._line_end = first.group() if first is not None else "\n"
        self._edits: list[tuple[int, int, str]] = []

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def replace(self, node: ast.expr | ast.stmt, expression: str) -> None:
        """Put an expression (of one line) in the place of a node."""
        self._replace(self._start(node), self._end(node), f"({expression}", ")")

    def wrap(self, node: ast.expr, inner: ast.expr, before: str, after: str) -> None:
        """Leave of a node what is ``inner``, between these texts. ``before`` ends within brackets, which ``after``
        closes.
        """
        self._replace(self._start(node), self._start(inner), before, "")
        self._replace(self._end(inner), self._end(node), "", after)

    def rewritten(self) -> bytes:
        """The file with all edits. What its encoding does not have is escaped, which means the same in texts."""
        text = self.text
        for start, end, new in sorted(self._edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text.encode(self.encoding, "backslashreplace")

    def _replace(self, start: int, end: int, before: str, after: str) -> None:
        """What is left out leaves its line ends, within the brackets that ``before`` opens or that are open already."""
        lines = len(_LINE_END.findall(self.text, start, end))
        self._edits.append((start, end, before + lines * self._line_end + after))

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """``column`` counts bytes of UTF-8."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode())
