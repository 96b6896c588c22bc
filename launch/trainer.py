"""Arguments of the Hugging Face `Trainer`, from its JSON or YAML or from a command line."""

from __future__ import annotations

from typing import Any

from ..inputs import InputError
from .bundle import Bundle, Given, whole

DEFAULT_MICRO_BATCH = 8
"""`per_device_train_batch_size` where nothing is said (transformers 5.24.0, TrainingArguments)."""

TRUE = {"true", "1", "yes"}


class Trainer:
    """The arguments found in a bundle; a command line wins over a file."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.file = bundle.of("transformers")

    @property
    def given(self) -> bool:
        """Whether any file holds arguments of the trainer."""
        return self.file is not None

    def argument(self, name: str) -> Given | None:
        """The value of an argument and its place."""
        said = self.bundle.argument(name)
        if said is not None:
            return Given(said.value[0] if said.value else True, said.where)
        if self.file is None or self.file.kind == "script" or self.file.get(name) is None:
            return None
        return Given(self.file.get(name), self.file.where(name))

    def number(self, name: str) -> int | None:
        """A whole number, None where it is not given."""
        found = self.argument(name)
        return None if found is None else whole(found.value, name, found.where)

    def switch(self, name: str) -> bool:
        """Whether an argument is on."""
        found: Any = self.argument(name)
        return found is not None and str(found.value).lower() in TRUE

    @property
    def recomputes(self) -> bool:
        """Whether the model recomputes its layers; `gradient_checkpointing` is the older name."""
        newer = self.argument("activation_checkpointing")
        return self.switch("gradient_checkpointing" if newer is None else "activation_checkpointing")

    def micro_batch(self, where: str) -> int:
        """Sequences a card and pass, which `auto` at `where` stands for."""
        if not self.given:
            reason = "is filled in from the trainer's arguments: give their file or launch script too"
            raise InputError("train_micro_batch_size_per_gpu", "auto", where, reason, legal=["1"])
        return self.number("per_device_train_batch_size") or DEFAULT_MICRO_BATCH
