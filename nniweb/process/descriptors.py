"""How many connections and files a server may have open: as many as the system lets it."""

import resource

#: Each running trial's keeper holds one, each open page one or two.
ENOUGH = 65_536


def raise_limit() -> int:
    """Raise this process's soft limit on open files towards its hard one; returns what it is now.

    A shell's limit is often 1,024: with a thousand running trials the next keeper would not be heard.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
