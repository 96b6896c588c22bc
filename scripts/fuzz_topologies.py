"""Coverage-guided fuzzing of the topology readers: ``python scripts/fuzz_topologies.py -max_total_time=300 FOLDER``

Needs ``pip install 'shardwise[fuzz]'``. FOLDER is a corpus, such as a copy of benchmarks/data/topo, to which atheris
adds. Anything but the one input error stops the run and is written beside the corpus.
"""  # noqa: E501

import contextlib
import sys

import atheris

with atheris.instrument_imports(include=["shardwise"]):
    from shardwise.hardware.topology import cluster_of_text, sighting_of
    from shardwise.inputs import InputError


def one(data: bytes) -> None:
    """Reads one text both ways; only the input error may come out."""
    text = data.decode("utf-8", "replace")
    for read in (lambda: sighting_of(text), lambda: cluster_of_text(text, "fuzz", {"gpu": "H100-SXM-80GB"})):
        with contextlib.suppress(InputError):
            read()


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
