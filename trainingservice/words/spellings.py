"""Spellings of the fields of config files."""


def fold(key: str) -> str:
    """The form in which two spellings of one field are equal: trialCommand, trial_command, TRIALCOMMAND."""
    return key.replace("_", "").lower()
