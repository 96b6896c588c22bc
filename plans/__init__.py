"""The contract in types: requests with the origin of each value, and the answers to them.

| file | holds |
|---|---|
| `request`, `choose`, `limits` | the question and what it leaves open |
| `read`, `raw`, `lines`, `settings`, `question` | reading it from files, `--set` and flags |
| `table`, `cluster_table`, `training_table`, `model_name` | its tables, made into nouns |
| `plan`, `peak`, `step`, `beside` | a plan: its proof, its memory, its seconds, what stands beside it |
| `no_plan`, `check`, `row` | other answers: none fits, a judgement, rows of `compare` and `curve`, `why` |
| `complete`, `follows` | strategies as people write them; words that follow from their choices |
| `saved`, `digests`, `schema` | answers as JSON and back, with what was edited since; published schemas |

Answers of other questions than `plan`, in `check` and `row`, are loaded when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs.origin import as_input_error
from ..inputs.quantity import bytes_of, count_of
from ..inputs.rooms import rooms
from .beside import Alternative, Notice, Offer, Rung
from .choose import Choose
from .complete import read_strategy
from .limits import Limits, Objective
from .no_plan import Conflict, Cure, NoPlan, Outcome, OutOfTime
from .padding import padded_request
from .peak import BytesPerParameter, MemoryReport, PeakUncertainty, StageMemory, Verdict
from .plan import SCHEMA_VERSION, Buckets, Plan, Proof
from .question import Question
from .read import Asked, read_asked, read_question, read_request
from .request import Request
from .saved import answer_of, as_json, read_kept, read_plan
from .step import Cost, TimeReport, Traffic, Uncertainty

if TYPE_CHECKING:
    from .check import Best, Breach, Check, Edited, FilesRead, Patched
    from .row import BreakEven, Compare, CompareRow, Curve, CurveRow, Why

__all__ = [
    "Alternative",
    "Asked",
    "Best",
    "Breach",
    "BreakEven",
    "Buckets",
    "BytesPerParameter",
    "Check",
    "Choose",
    "Compare",
    "CompareRow",
    "Conflict",
    "Cost",
    "Cure",
    "Edited",
    "FilesRead",
    "Curve",
    "CurveRow",
    "Limits",
    "MemoryReport",
    "NoPlan",
    "Notice",
    "Objective",
    "Offer",
    "OutOfTime",
    "Outcome",
    "Patched",
    "Plan",
    "Proof",
    "Question",
    "Request",
    "Rung",
    "SCHEMA_VERSION",
    "StageMemory",
    "TimeReport",
    "Traffic",
    "PeakUncertainty",
    "Uncertainty",
    "Verdict",
    "Why",
    "answer_of",
    "as_input_error",
    "as_json",
    "bytes_of",
    "count_of",
    "padded_request",
    "read_asked",
    "read_kept",
    "read_plan",
    "read_question",
    "read_request",
    "read_strategy",
]

__getattr__ = rooms(
    __name__,
    {
        "check": ("Best", "Breach", "Check", "Edited", "FilesRead", "Patched"),
        "row": ("BreakEven", "Compare", "CompareRow", "Curve", "CurveRow", "Why"),
    },
)
