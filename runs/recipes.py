"""The recipe of a run of Megatron-Bridge: settings that its tables of results leave out.

``catalogue/bridge_recipes.csv`` has the recipes of all releases (``scripts/bridge_recipes.py`` writes it).
Rule: of the recipes of the row's model, card and precision (the model goes first, then the card) the one with
the fewest steps away: degrees of layout (tp, pp, vpp, cp, ep, micro-batch) that differ from its columns,
and releases between. Ties: the nearer layout, the same batch, the nearer number of cards. It gives the
exchange of tokens, its overlap, the CUDA graphs of a row with experts, and blank `vpp` and `recompute` with
the modules that run again; the
notes of a job say which recipe and how near.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, get_args

from ..inputs.record import dataclass
from ..models.training import Module
from .facts import facts
from .record import Record
from .switches import Graphs, Switches

TUNED = ("nemo", "bridge")
"""Words of frameworks whose runs are those of NVIDIA's recipes."""
_RELEASE = re.compile(r"release (\d\d\.\d\d(?:\.\d\d)?)")
_CARD = re.compile(r"GB[23]00|B[23]00|H100|VR200|R100", re.IGNORECASE)
_PRECISIONS = {"fp8": "fp8cs", "mxfp8": "fp8mx", "": "bf16"}
_SHAPE = ("layers", "hidden", "experts")
_DEGREES = ("tp", "pp", "vpp", "cp", "ep", "micro_batch_seqs")


@dataclass(frozen=True)
class Recipe:
    """One line of the table."""

    cells: dict[str, str]

    @property
    def name(self) -> str:
        """What it is for, as said in notes."""
        words = (self.cells[key] for key in ("model", "gpu", "precision", "variant") if self.cells[key])
        return f"{' '.join(words)} of {self.cells['releases'].split()[0]}"

    def differs(self, said: Mapping[str, int]) -> int:
        """Degrees in which its layout is another, of those that a row says."""
        return sum(degree != int(self.cells[key] or 1) for key, degree in said.items())

    def distance(self, release: str) -> int:
        """Releases between its nearest one and `release`; one that is not known is the last."""
        here = _place(release)
        return min(abs(_place(word) - here) for word in self.cells["releases"].split())

    @property
    def switches(self) -> Switches:
        """Exchange, overlap, graphs and operands of attention.

        Experts run in one grouped kernel where the whole step is one graph.
        """
        scope = self.cells["graph_scope"].split()
        graphs: dict[str, Graphs] = {
            "full_iteration": "step",
            "transformer_engine": "attention" if "attn" in scope else "router",
        }
        return Switches(
            self.cells["exchange"] or "alltoall",
            bool(self.cells["overlap"]),
            graphs.get(self.cells["graphs"], ""),
            8 if self.cells["fp8_attention"] else 16,
        )

    @property
    def recompute(self) -> str:
        """`selective` where it names modules to run again."""
        return "selective" if self.modules else "none"

    @property
    def modules(self) -> tuple[Module, ...]:
        """What runs again in the backward pass, of the modules that are priced."""
        return modules_in(self.cells["recompute_modules"])


def modules_in(text: str) -> tuple[Module, ...]:
    """The modules that Megatron Core recomputes, as it spells them, of the words of a text."""
    spoken = set(re.findall(r"\w+", text))
    return tuple(name for name in get_args(Module) if name in spoken)


def _place(release: str) -> int:
    releases = _releases()
    return releases.index(release) if release in releases else len(releases) - 1


@cache
def _releases() -> tuple[str, ...]:
    """Releases of Megatron-Bridge, oldest first."""
    return tuple(facts("recipes")["releases"])


@cache
def recipes() -> tuple[Recipe, ...]:
    """All recipes with experts that pretrain."""
    file = resources.files(__package__ or "shardwise.runs").joinpath("catalogue", "bridge_recipes.csv")
    lines = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    kept = [line for line in lines if line["task"] == "pretrain" and int(line["ep"] or 1) > 1]
    return tuple(Recipe(line) for line in kept if line["variant"] != "large_scale")


def recipe_of(record: Record) -> tuple[Recipe, int]:
    """The nearest recipe of a row with experts, and how far it is: 0 its own layout in its own release."""
    said = _RELEASE.search(record.notes)
    release = said[1] if said else _releases()[-1]
    found = _CARD.search(record.text("gpu"))
    card, word = found[0].lower() if found else "", record.word("precision")
    mine = (_model(record), card, _PRECISIONS.get(word, word))
    degrees = {key: degree for key in _DEGREES if (degree := record.integer(key))}
    gpus, sequences = record.integer("gpus") or 1, record.text("global_batch_seqs")

    def order(recipe: Recipe) -> tuple[int, ...]:
        away = [
            recipe.cells[key] != value for key, value in zip(("model", "gpu", "precision"), mine, strict=True)
        ]
        differs, distance = recipe.differs(degrees), recipe.distance(release)
        batch = recipe.cells["global_batch_seqs"] != sequences
        cards = abs(int(recipe.cells["gpus"] or 1) - gpus)
        return *away, differs + distance, differs, batch, cards

    best = min(recipes(), key=order)
    return best, sum(order(best)[:4])


def recipe_modules(record: Record) -> int:
    """Modules that predict further tokens of NVIDIA's recipe for a row's model; 0 in other software."""
    tuned = any(word in record.text("framework").lower() for word in TUNED)
    return int(_entry(record).get("mtp_layers", 0)) if tuned else 0


@cache
def _models() -> dict[tuple[int, ...], dict[str, Any]]:
    return {tuple(entry[key] for key in _SHAPE): entry for entry in facts("recipes")["models"]}


def _entry(record: Record) -> dict[str, Any]:
    return _models().get(tuple(record.integer(key) or 0 for key in _SHAPE), {})


def _model(record: Record) -> str:
    return str(_entry(record).get("name", ""))
