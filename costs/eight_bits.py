"""What the step time cannot tell of two kinds of 8-bit arithmetic."""

from __future__ import annotations

from .law import law


def alike() -> str:
    """That fp8 and mxfp8 are not told apart, with what published runs of both had."""
    least, most = law("fp8_ahead_least"), law("fp8_ahead_most")
    told = f"fp8 {least:g} to {most:g} % ahead (Megatron Bridge 26.06)"
    return f"fp8 and mxfp8 are not told apart: published runs of both in one layout had {told}"
