"""How long what the tuner process answers may be."""

#: Bytes of one reply line, with its end.
MOST_REPLY = 32 * 1024 * 1024
#: Characters of an error's sentence, and of its traceback, of which the end is kept.
LONGEST_ERROR, LONGEST_TRACEBACK = 4000, 40_000


class AnswerTooLong(Exception):
    """An algorithm gives more than a reply may hold."""
