"""Whether a host is one of the public internet: what people may have the server call."""

import ipaddress
import socket

#: Where IPv6 networks reach IPv4: the last 32 bits are an IPv4 address.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: What is not of the public internet, by IANA's registries of special addresses: what the standard library says of them
#: changed from one Python to the next (192.0.0.0/24 was public to 3.11). Of IPv6 the public part is one block.
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/3", "2001::/23", "2001:db8::/32", "3fff::/20")))
_PUBLIC_IPV6 = ipaddress.ip_network("2000::/3")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotPublic(Exception):
    """The host cannot be found, or has an address that is not of the public internet. The text says which."""


def addresses_of(host: str, port: int, *, also_private: bool, allowed_by: str) -> list[str]:
    """All addresses of a host, resolved now. Blocking. Raises NotPublic; ``allowed_by`` is the setting it then names.

    Whoever connects must use one of these and not ask for the name again: the next answer may be another one.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotPublic(f"The address of the host {host} cannot be found: {reason}.") from None
    texts = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    for text in texts:
        if not also_private and not is_public(ipaddress.ip_address(text)):
            raise NotPublic(f"{host} has the address {text}, which is not a public internet address. An administrator "
                            f"can allow such addresses with {allowed_by}=1.")
    return texts


def is_public(address: Address) -> bool:
    """False for loopback, link-local, private, shared, reserved and multicast, also where IPv6 hides such a one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)  # it is as public as the address it stands for
        if address not in _PUBLIC_IPV6:
            return False
    return not any(address in network for network in _NOT_PUBLIC)
