"""Numbers of bytes as people read them, everywhere the same: static/js/lib/byte_size.js has it for the pages."""

_UNITS = ("KB", "MB", "GB", "TB", "PB")


def byte_size(count: float) -> str:
    """``67.2 GB``: one decimal, and 1024 of a unit are one of the next. Below that whole bytes."""
    if count < 1024:
        return "1 byte" if count == 1 else f"{count:.0f} bytes"
    size, unit = count / 1024, 0
    while size >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}"
