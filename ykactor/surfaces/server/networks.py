"""Networks: addresses that probably are of one client, and count together."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def network_of(origin: str) -> str:
    """The network of /24 or /64 that an origin is in; one that is no address is alone."""
    host = origin.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return origin
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(ip_network((address, 24 if isinstance(address, IPv4Address) else 64), strict=False))
