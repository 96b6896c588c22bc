"""The backend, software stack and loss of a row, by framework, year and notes.

Rules: the entries of ``catalogue/frameworks.json``, in order, each with the words of the framework's name it
is for, the years, and words the notes must or must not hold. An entry names stacks best first; the first
that the catalogue of stacks holds is taken, and any but the first is a stand-in. A framework that no entry
names takes the last entries: by kind (DeepSpeed, Megatron, else FSDP) and year.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..inputs import Frozen, shorten
from ..models.recipe import losses
from ..models.stack import stack_names
from ..models.strategy import BackendName, GradientDtype
from .facts import facts
from .recipes import Recipe, recipe_of
from .record import Record
from .refusal import Refused
from .stages import Cut
from .switches import Switches

FAMILY = "bridge-moe"
_CHUNKS = re.compile(r"\blogits in (\d+) chunks")


class Rule(Frozen):
    """One entry: when it holds, and what the row is priced as."""

    name: str
    framework: tuple[str, ...] = ()
    """Words of which the framework's name holds one; empty: any."""
    without_framework: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Words of which the notes hold one; empty: any."""
    without_notes: tuple[str, ...] = ()
    since: int = 0
    until: int = 9999
    precision: tuple[str, ...] = ()
    mixed: bool | None = None
    """Whether the row's precision must say that 32-bit weights are cast where used ("bf16-mixed")."""
    experts: bool | None = None
    flash: bool | None = None
    """Whether the row must say so in `flash_attention`."""
    pipeline: bool | None = None
    """Whether the row must have several stages."""
    zero_stage: tuple[int, ...] = ()
    """ZeRO stages of which the row states one; empty: any."""
    hidden: tuple[int, ...] = ()
    """Hidden sizes of which the row's is one; empty: any."""
    vocab: tuple[int, ...] = ()
    """Vocabularies of which the row's is one; empty: any."""
    backend: BackendName
    stacks: tuple[str, ...]
    losses: tuple[str, ...]
    gradients: GradientDtype | None = None
    """Type in which 16-bit runs keep gradients where the row leaves it blank; None: the backend's."""
    master_weights: bool = True
    """Whether 16-bit weights have an fp32 copy."""
    without_sync: bool = False
    """Whether gradients stay whole between micro-batches, unreduced."""
    stage_layers: Cut = "even"
    """How layers are cut over pipeline stages."""
    lora_targets: tuple[str, ...] = ()
    """Matrices that its own recipes adapt, where a row names none; empty: all linear ones."""
    recipes: bool = False
    """Whether published recipes say more of the stack (`recipes`)."""
    reason: str

    def holds(self, record: Record) -> bool:
        """Whether the rule is for this row."""
        framework = record.text("framework").lower()
        return (
            (not self.framework or any(word in framework for word in self.framework))
            and not any(word in framework for word in self.without_framework)
            and (not self.notes or any(word in record.notes for word in self.notes))
            and not any(word in record.notes for word in self.without_notes)
            and self.since <= record.year <= self.until
            and (not self.precision or record.word("precision") in self.precision)
            and self.mixed in (None, "mixed" in record.said("precision").lower())
            and self.experts in (None, (record.integer("experts") or 0) > 1)
            and self.flash in (None, record.flag("flash_attention"))
            and self.pipeline in (None, (record.integer("pp") or 1) > 1)
            and (not self.zero_stage or stated_zero_stage(record) in self.zero_stage)
            and (not self.hidden or record.integer("hidden") in self.hidden)
            and (not self.vocab or record.integer("vocab") in self.vocab)
        )


def stated_zero_stage(record: Record) -> int | None:
    """The ZeRO stage that a row states ("3", "ZeRO-3", "stage 3"), None where blank; else `Refused`."""
    word = record.word("zero_stage")
    if not word:
        return None
    stage = re.fullmatch(r"(?:zero|stage)?[\s\-]*([0-3])(?:\.0*)?(?:\D.*)?", word)
    if not stage:
        raise Refused("unreadable", f"zero_stage = {shorten(word)} is not 0 to 3")
    return int(stage[1])


class Software(Frozen):
    """What a row is priced as; `stand_ins` say what is missing and what was taken."""

    rule: str
    backend: BackendName
    stack: str
    loss_kernel: str
    gradients: GradientDtype | None
    master_weights: bool
    without_sync: bool
    stage_layers: Cut
    stand_ins: tuple[str, ...]
    lora_targets: tuple[str, ...] = ()
    """Matrices adapted where a row names none."""
    recipe: Recipe | None = None
    """The published recipe that fills blank columns."""
    own_recipe: bool = False
    """Whether that is the row's own: its layout, in its release."""


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in order."""
    told = facts("frameworks")
    return tuple(Rule.model_validate(_spelled(entry, told["words"])) for entry in told["rules"])


def _spelled(entry: dict[str, Any], words: dict[str, list[str]]) -> dict[str, Any]:
    """An entry with the words of its framework in place of the name of a list that rules share."""
    framework = entry.get("framework")
    return {**entry, "framework": words[framework]} if isinstance(framework, str) else entry


def software_of(record: Record) -> Software:
    """The software of a row; the last rule holds for any."""
    rule = next(rule for rule in rules() if rule.holds(record))
    recipe, away = recipe_of(record) if rule.recipes else (None, 0)
    stacks, notes = _by_recipe(record, recipe, away) if recipe else (_switched(record, rule), ())
    stack, stack_note = _first(stacks, tuple(stack_names()), "stack")
    loss, loss_note = _first(_in_chunks(record, rule), tuple(losses()), "loss")
    return Software(
        rule=rule.name,
        backend=rule.backend,
        stack=stack,
        loss_kernel=loss,
        gradients=rule.gradients,
        master_weights=rule.master_weights,
        without_sync=rule.without_sync,
        stage_layers=rule.stage_layers,
        stand_ins=notes + stack_note + loss_note,
        lora_targets=rule.lora_targets,
        recipe=recipe,
        own_recipe=recipe is not None and not away,
    )


def _by_recipe(record: Record, recipe: Recipe, away: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The stacks that a recipe and the row name, and a note that says how near the recipe is."""
    near = "its own" if not away else f"{away} steps away"
    switches = recipe.switches.told(record)
    wanted = f"{FAMILY}-{switches.name}"
    stacks = dict.fromkeys((wanted, *switches.stacks(FAMILY, stack_names()), f"{FAMILY}-alltoall"))
    return tuple(stacks), (f"recipe {recipe.name}, {near}",)


def _switched(record: Record, rule: Rule) -> tuple[str, ...]:
    """The stacks of a rule, first with what the row has switched on, where there is such a one."""
    if (record.integer("experts") or 0) > 1:
        return rule.stacks
    nearest = Switches().told(record).stacks(rule.stacks[0], stack_names())
    return tuple(dict.fromkeys((*nearest, *rule.stacks)))


def _in_chunks(record: Record, rule: Rule) -> tuple[str, ...]:
    """The losses of a rule, first in so many chunks as the notes say of the logits."""
    said = _CHUNKS.search(record.notes)
    return (f"{rule.losses[0]}-{said[1]}", *rule.losses) if said else rule.losses


def _first(wanted: tuple[str, ...], known: tuple[str, ...], what: str) -> tuple[str, tuple[str, ...]]:
    """The first of `wanted` that is `known`, and a note where it is not the first."""
    found = next(name for name in wanted if name in known)
    return found, () if found == wanted[0] else (f"{what} {wanted[0]} -> {found}",)
