"""Names of models and cards as they may stand in comments of scripts."""

from __future__ import annotations

import re


def label(name: str) -> str:
    """`name` on one line without characters that could end a comment or a docstring.

    >>> label('my"model\\n; rm')
    'my_model__ rm'
    """
    return re.sub(r"[^A-Za-z0-9_.+\-/ ]", "_", name)[:80]
