"""The search: numpy bounds the rows, CP-SAT chooses among survivors and fills their stages.

| file | holds |
|---|---|
| `software`, `axes`, `space`, `room` | values of each knob; shapes and rows; what is too large |
| `rules`, `cuts`, `stage_limits`, `legal` | rules on knobs; what they and limits cut off; reasons |
| `coefficients`, `lower` | the ledger's integers a row; lower bounds of steps |
| `cases`, `counted`, `spans`, `level`, `hosts`, `bounds` | ways to recompute, reach of stages, rows left |
| `even`, `uniform` | plans of even stages: first incumbents |
| `table`, `options`, `slowest`, `frontier` | what a stage may hold, and may be the slowest; the cut |
| `few`, `leaf` | the stages of a row: few ways are looked at, many are CP-SAT's |
| `master`, `close`, `search`, `outcome` | CP-SAT over the knobs; the end; the loop; its tally |
| `judge`, `answer`, `answering`, `notices` | judged again; plans, one request answered; warnings |
| `alternatives`, `folk`, `eight_bits` | other classes, the rule of thumb; 8-bit arithmetic |
| `feasible`, `members`, `clash`, `no_rows`, `reasons` | why none: the clash in sentences |
| `cures`, `pasted` | changes that cure it, each solved as its asker will put it |
| `fewest` | the fewest cards that have a plan |
| `points`, `solved`, `forced`, `vary`, `counts`, `ladder` | what if: a forced change, cases, counts, levers |
| `broken` | an out-of-memory message: the term that broke, changes that fit |
| `watch`, `engine`, `planner` | who looks on, and may stop it; OR-Tools; the public face |

Modules that only some questions need are loaded when one of those is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs.rooms import rooms
from .planner import Planner, check, plan

if TYPE_CHECKING:
    from .broken import diagnose
    from .counts import curve
    from .forced import why
    from .vary import Case, compare

__all__ = ["Case", "Planner", "check", "compare", "curve", "diagnose", "plan", "why"]

__getattr__ = rooms(
    __name__,
    {"broken": ("diagnose",), "counts": ("curve",), "forced": ("why",), "vary": ("Case", "compare")},
)
