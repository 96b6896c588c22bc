"""The contract in types: requests with the origin of each value, and the answers to them.

| file | holds |
|---|---|
| `request`, `choose`, `limits` | the question and what it leaves open |
| `read`, `raw`, `lines`, `settings`, `sections` | reading it from files, `--set` and flags |
| `origin`, `quantity` | where a value came from; amounts with units |
| `plan`, `check` | the answers |
| `complete`, `saved`, `schema` | strategies as people write them; answers as JSON; published schemas |
"""

from .check import Best, Breach, Check, Edited, FilesRead, Patched
from .choose import Choose
from .complete import read_strategy
from .limits import Limits, Objective
from .origin import as_input_error
from .padding import padded_request
from .plan import (
    SCHEMA_VERSION,
    Alternative,
    Buckets,
    BytesPerParameter,
    Conflict,
    Cost,
    Cure,
    MemoryReport,
    NoPlan,
    Notice,
    Offer,
    Outcome,
    OutOfTime,
    PeakUncertainty,
    Plan,
    Proof,
    StageMemory,
    TimeReport,
    Traffic,
    Uncertainty,
    Verdict,
)
from .quantity import bytes_of, count_of
from .read import read_request
from .request import Request
from .saved import answer_of, as_json, read_plan

__all__ = [
    "SCHEMA_VERSION",
    "Alternative",
    "Best",
    "Breach",
    "Buckets",
    "BytesPerParameter",
    "Check",
    "Choose",
    "Conflict",
    "Cost",
    "Cure",
    "Edited",
    "FilesRead",
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
    "Request",
    "StageMemory",
    "TimeReport",
    "Traffic",
    "PeakUncertainty",
    "Uncertainty",
    "Verdict",
    "answer_of",
    "as_input_error",
    "as_json",
    "bytes_of",
    "count_of",
    "padded_request",
    "read_plan",
    "read_request",
    "read_strategy",
]
