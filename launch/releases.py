"""The releases of the clients that the written files were loaded, run or compared with."""

from __future__ import annotations

from functools import cache

from ..inputs.data import data


@cache
def _catalogue() -> dict[str, dict[str, str]]:
    found = data(__package__, "releases.json")
    return {part: {str(k): str(v) for k, v in found[part].items()} for part in ("releases", "read")}


def releases() -> dict[str, str]:
    """Package name to release, of the clients that our tests run.

    >>> releases()["deepspeed"]
    '0.19.8'
    """
    return dict(_catalogue()["releases"])


def read_in(client: str) -> str:
    """A client whose own parser knows every name we write, with its releases.

    >>> read_in("Megatron-LM")
    'Megatron-LM core_v0.16.1 to core_v0.19.0'
    """
    return f"{client} {_catalogue()['read'][client]}"


def tested_with(*packages: str) -> str:
    """The named packages with their releases, for a heading.

    >>> tested_with("torch", "transformers")
    'torch 2.13.0, transformers 5.24.0'
    """
    known = {**_catalogue()["releases"], **_catalogue()["read"]}
    return ", ".join(f"{package} {known[package]}" for package in packages)
