"""The network of a row from the words of its column `inter_link`.

Rules: "NxR" are N cards of rate R; "R per GPU" one a card, "R per node" shared by the machine. R is in
Gbit/s or Tbit/s; GB/s are bytes. A rate alone is that of each network card the node type has, but Ethernet
("GbE") is one card and 1 Tbit/s or more is the machine's. Without a rate the generation of InfiniBand gives
it (EDR 100, HDR 200, NDR 400, XDR 800), and else the node type's own network stands in.
"""

from __future__ import annotations

import re

BITS = 8

_RATE = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:([tg])(i?)(b|bit|bps|bits|byte|bytes)(?:/s|ps|it/s)?|(gbe))\b", re.IGNORECASE
)
_COUNT = re.compile(r"(\d+)\s*[x×*]\s*$", re.IGNORECASE)
_PER = re.compile(r"(?:per|/|a|each)\s*(gpu|card|node|server|machine|host)\b", re.IGNORECASE)
_GENERATIONS = (("xdr", 800.0), ("ndr", 400.0), ("hdr", 200.0), ("edr", 100.0))
_FABRICS = (
    ("roce", "roce"),
    ("efa", "efa"),
    ("tcpxo", "gpudirect-tcpxo"),
    ("tcpx", "gpudirect-tcpx"),
    ("xdr", "infiniband-xdr"),
    ("ndr", "infiniband-ndr"),
    ("hdr", "infiniband-hdr"),
    ("edr", "infiniband-hdr"),
    ("omnipath", "omni-path"),
    ("omni-path", "omni-path"),
    ("rdma", "roce"),
    ("ethernet", "tcp"),
    ("gbe", "tcp"),
    ("tcp", "tcp"),
)
_WHOLE_MACHINE_BITS = 1e12


def network_of(link: str, per_node: int, nics: int | None = None) -> tuple[int, float] | None:
    """(network cards, bytes/s of each) that `link` states of a machine of `per_node` cards whose type has
    `nics` (None: one a card); None where it gives no rate.

    >>> network_of("4x100Gb OmniPath", 8), network_of("8 x 50 GB/s InfiniBand", 8)
    ((4, 12500000000.0), (8, 50000000000.0))
    >>> network_of("400Gb/s per node GDR", 8), network_of("10GbE", 8), network_of("InfiniBand NDR", 8)
    ((1, 50000000000.0), (1, 1250000000.0), (8, 50000000000.0))
    """
    found = _RATE.search(link)
    each = per_node if nics is None else nics
    if found is None:
        known = next((rate for word, rate in _GENERATIONS if word in link.lower()), None)
        return None if known is None else (each, known * 1e9 / BITS)
    bits = _bits(found)
    if not 0 < bits < 1e18:
        return None
    if count := _COUNT.search(link[: found.start()]):
        return (int(count[1]), bits / BITS) if 0 < int(count[1]) <= 1024 else None
    if per := _PER.search(link[found.end() :]):
        return (per_node, bits / BITS) if per[1].lower() in ("gpu", "card") else (1, bits / BITS)
    alone = found[5] or "ethernet" in link.lower() or bits >= _WHOLE_MACHINE_BITS
    return (1 if alone else each, bits / BITS)


def fabric_of(link: str, usual: str) -> str:
    """The fabric that `link` names, else the `usual` one."""
    return next((name for word, name in _FABRICS if word in link.lower()), usual)


def _bits(found: re.Match[str]) -> float:
    """Bits a second of a rate; a capital B after a letter alone is bytes."""
    scale = 1e12 if (found[2] or "").lower() == "t" else 1e9
    word = found[4] or "b"
    is_bytes = word == "B" or word.lower().startswith("byte")
    return float(found[1]) * scale * (BITS if is_bytes else 1)
