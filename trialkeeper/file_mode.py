"""Who may read the files of an attempt."""

import os

from trialkeeper import contract


def file_mode() -> int:
    """Rights of files without secrets: 0600, or readable for all where somebody else collects them."""
    return 0o644 if os.environ.get(contract.ENV_READABLE) == "1" else 0o600
