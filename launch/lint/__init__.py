"""Rules on the files of launchers and clients: what is wrong, on which line, and what to write instead.

| file | holds |
|---|---|
| `finding` | one finding |
| `keys`, `keys/` | keys of each client with their kinds, as data; unknown, misplaced, of another kind |
| `deepspeed`, `batch`, `trainer`, `accelerate`, `megatron`, `torchtitan`, `launcher` | rules of one client |
| `precision`, `cards` | formats against the cards that a file names |

Loads the tables of the clients whose files are given, no schema of ours and no pydantic.
"""

from .finding import Finding
from .rules import lint

__all__ = ["Finding", "lint"]
