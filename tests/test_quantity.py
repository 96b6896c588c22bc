"""Amounts as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardwise.inputs import InputError
from shardwise.inputs.quantity import bytes_of, count_of, gib


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80GB", 80 * 10**9),
        ("74.5GiB", 79_993_765_888),
        ("1.5TB", 1_500_000_000_000),
        ("512 gib", 512 * 2**30),
        ("1KiB", 1024),
        ("80000000000", 80 * 10**9),
        (2**40, 2**40),
    ],
)
def test_bytes_are_exact(text: object, expected: int) -> None:
    """GB counts 10^9 and GiB 2^30 bytes, without a rounding of floats between."""
    assert bytes_of(text, "card", "--card") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30e9", 30 * 10**9),
        ("70B", 70 * 10**9),
        ("1T", 10**12),
        ("0.5k", 500),
        (7e9, 7 * 10**9),
        ("1_000", 1000),
    ],
)
def test_counts_are_exact(text: object, expected: int) -> None:
    """Counts take K, M, B (10^9), T (10^12) and exponents, and come out whole."""
    assert count_of(text, "n", "--n") == expected


@pytest.mark.parametrize(
    "value",
    [
        "", "GB", "-80GB", "0", "80XB", "nan", "inf", "1e999", "8" * 100, float("nan"), float("inf"), -1, 0,
        True, None, [80], 2**63, 10**4000, "1.2.3GB", "80GB80GB", "0x10", "1e-9",
    ],
)  # fmt: skip
def test_what_is_no_amount_is_refused(value: object) -> None:
    """Anything but a positive amount up to 2^62 is one `InputError` with field and origin."""
    for read in (bytes_of, count_of):
        with pytest.raises(InputError) as caught:
            read(value, "card", "--card")
        assert (caught.value.field, caught.value.origin) == ("card", "--card")
        assert len(str(caught.value)) < 250


def test_counts_must_be_whole() -> None:
    """A fraction of a thing is refused, a fraction of a byte is cut off."""
    with pytest.raises(InputError, match="whole"):
        count_of("1.5", "n", "--n")
    assert bytes_of("1.5", "card", "--card") == 1


@given(st.integers(min_value=1, max_value=2**62))
def test_whole_numbers_stand_for_themselves(number: int) -> None:
    """A number, as such or as text, means itself to the unit."""
    assert bytes_of(number, "b", "b") == bytes_of(str(number), "b", "b") == number
    assert count_of(number, "n", "n") == count_of(str(number), "n", "n") == number


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    """Any text is an amount or an `InputError`, never another exception."""
    try:
        assert bytes_of(text, "b", "b") >= 1
    except InputError as error:
        assert error.field == "b"


def test_gib_says_its_unit() -> None:
    """Printed bytes name GiB."""
    assert gib(79_993_765_888) == "74.5 GiB"
