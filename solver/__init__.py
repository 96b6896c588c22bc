"""The search: numpy bounds the rows, CP-SAT chooses among survivors and fills their stages.

| file | holds |
|---|---|
| `software`, `space`, `rules`, `legal` | rows of global choices; rules on knobs; reasons |
| `coefficients`, `bounds`, `uniform` | the ledger's integers a row; admissible bounds; first incumbents |
| `table`, `options`, `frontier`, `leaf` | what a stage may hold; the cut; CP-SAT over the stages of a row |
| `master`, `search` | CP-SAT over the knobs; the loop and its tally |
| `judge`, `answer`, `alternatives`, `clash` | judged again; plans, other classes, why none |
| `planner` | the public face |
"""

from .planner import Planner, check, plan

__all__ = ["Planner", "check", "plan"]
