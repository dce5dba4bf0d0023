"""By what callers of one network address are counted, where too many of something are refused."""

import ipaddress
from functools import lru_cache


@lru_cache(4096)  # nearly all callers come from the same few
def counted_as(address: str) -> str:
    """The address as it is always written. Of IPv6 its network: whoever has one such address has the 2**64 beside it.

    What is no address counts as it is.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    found = getattr(found, "ipv4_mapped", None) or found
    return str(found) if found.version == 4 else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
