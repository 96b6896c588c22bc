"""Runs as people publish or log them: columns read as jobs the ledger can price, blanks by fixed rules."""

from .layouts import Candidate
from .priced import Refusal, Run, price_jobs, read_rows
from .record import COLUMNS, Record, read_records
from .refusal import Refused
from .rows import Job, read_row

__all__ = [
    "COLUMNS",
    "Candidate",
    "Job",
    "Record",
    "Refusal",
    "Refused",
    "Run",
    "price_jobs",
    "read_records",
    "read_row",
    "read_rows",
]
