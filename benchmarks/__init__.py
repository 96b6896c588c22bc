"""Benchmarks: the ledger and its readers held against published measurements.

Each is run as ``python -m benchmarks.NAME [--json] FILES``; the data lie in ``benchmarks/data``.
"""
