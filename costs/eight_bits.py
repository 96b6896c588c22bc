"""What the step time cannot tell of two kinds of 8-bit arithmetic.

The products that mxfp8 is priced by were measured in other kernels than training has.
"""

from __future__ import annotations

from .law import constants


def alike() -> str:
    """That fp8 and mxfp8 are not told apart, with what published runs of both had."""
    least, most = constants()["fp8_ahead_least"], constants()["fp8_ahead_most"]
    told = f"fp8 {least.value:g} to {most.value:g} % ahead ({least.source})"
    return f"fp8 and mxfp8 are not told apart: published runs of both in one layout had {told}"
