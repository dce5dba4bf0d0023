"""Whether a host is one of the public internet: what people may have the server call."""

import ipaddress
import socket

#: Where IPv6 networks reach IPv4: the last 32 bits are an IPv4 address.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

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
        raise NotPublic(f"The host {host} cannot be found: {reason}.") from None
    texts = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    for text in texts:
        if not also_private and not is_public(ipaddress.ip_address(text)):
            raise NotPublic(f"{host} has the address {text}, which is not one of the public internet. An administrator "
                            f"can allow such addresses with {allowed_by}=1.")
    return texts


def is_public(address: Address) -> bool:
    """False for loopback, link-local, private, shared, reserved and multicast, also where IPv6 hides such a one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(each is not None and not is_public(each) for each in inner):
            return False
        if address.ipv4_mapped is not None:
            return True  # it is as public as the address it stands for
    return address.is_global and not address.is_multicast and not address.is_reserved
