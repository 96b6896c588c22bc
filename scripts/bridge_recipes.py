"""Performance recipes of Megatron-Bridge's releases as rows of ``runs/catalogue/bridge_recipes.csv``.

    python scripts/bridge_recipes.py CLONE

CLONE is a git clone of NVIDIA-NeMo/Megatron-Bridge with its tags. Releases to 26.06.01 list their recipes as
objects of one class; later ones write a function each, which is run with stand-ins for all it imports and
read for what it sets. A recipe that several releases share stands once, with the first commit that has it.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "runs/catalogue/bridge_recipes.csv"
LISTED = {
    "25.11": "v0.2.0",
    "26.02": "v0.3.0",
    "26.02.01": "v0.3.1",
    "26.04": "v0.4.0",
    "26.04.01": "v0.4.1",
    "26.06": "v0.5.0",
    "26.06.01": "v0.5.1",
}
WRITTEN = {"26.08": "v0.6.0"}
LIBRARY_EXCHANGE = {"deepseek_v3": "hybridep"}
"""What src/megatron/bridge/recipes sets where a written recipe is silent."""
FIELDS = {
    "gpus": "num_gpus",
    "global_batch_seqs": "global_batch_size",
    "micro_batch_seqs": "micro_batch_size",
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "vpp": "virtual_pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
    "fsdp": "use_megatron_fsdp",
    "exchange": "moe_flex_dispatcher_backend",
    "overlap": "moe_a2a_overlap",
    "graphs": "cuda_graph_impl",
    "graph_scope": "cuda_graph_scope",
    "recompute_modules": "recompute_modules",
    "recompute_layers": "recompute_num_layers",
    "offload_layers": "cpu_offloading_num_layers",
    "layout": "pp_layout",
    "grouped_kernel": "cutedsl_fused_grouped_mlp",
    "fp8_attention": "fp8_dot_product_attention",
}
KEYS = ("model", "gpu", "task", "precision", "variant")
HEAD = ("releases", "commit", "path", *KEYS, *FIELDS)
_CARDS = "GB300|GB200|B300|B200|H100|VR200|R100"
_NAME = re.compile(
    rf"(?P<model>.+?)_(?:(?P<task>PRETRAIN|SFT|LORA)_CONFIG_)?(?P<gpu>{_CARDS})_(?:(?P<late>SFT|LORA)_)?"
    r"(?P<precision>BF16|FP8_CS|FP8_MX|FP8_SC|NVFP4)_?(?:BASE_CONFIG)?(?P<variant>V\d|LARGE_SCALE)?$"
)
_FLAT = re.compile(
    rf"(?P<model>.+?)_(?P<task>pretrain|sft|peft)_(?:\w*?)(?P<gpus>\d+)gpu_(?P<gpu>{_CARDS.lower()})_"
    r"(?P<precision>bf16|fp8cs|fp8mx|fp8sc|nvfp4)(?:_(?P<variant>\w+?))?_config$"
)


def main(arguments: list[str]) -> None:
    """Writes the table."""
    clone = Clone(Path(arguments[0]))
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    for release, tag in (LISTED | WRITTEN).items():
        found = listed(clone, tag) if release in LISTED else written(clone, tag)
        for row in found:
            words = {key: _word(row.get(key)) for key in HEAD if key not in ("releases", "commit")}
            known = rows.setdefault(tuple(words[key] for key in (*KEYS, *FIELDS)), words)
            known.setdefault("commit", clone.commit(tag))
            known["releases"] = " ".join((*known.get("releases", "").split(), release))
    with FILE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, HEAD, lineterminator="\n")
        table.writeheader()
        table.writerows(rows.values())
    print(f"{len(rows)} recipes of {len(LISTED | WRITTEN)} releases")


def _word(value: Any) -> str:
    """A cell: nothing for what is off or not said."""
    if value is None or value is False or isinstance(value, Anything):
        return ""
    if isinstance(value, list | tuple):
        return " ".join(str(part) for part in value)
    return "1" if value is True else str(value)


class Clone:
    """A git clone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *words: str) -> str:
        """The output of a git command."""
        run = subprocess.run(["git", "-C", self.path, *words], check=True, capture_output=True, text=True)
        return run.stdout

    def commit(self, tag: str) -> str:
        """The commit of a tag."""
        return self.git("rev-list", "-n1", tag).strip()

    def text(self, tag: str, path: str) -> str:
        """A file as it was."""
        return self.git("show", f"{tag}:{path}")

    def files(self, tag: str, folder: str) -> list[str]:
        """Paths below a folder."""
        return self.git("ls-tree", "-r", "--name-only", tag, folder).split()


def listed(clone: Clone, tag: str) -> list[dict[str, Any]]:
    """Recipes that a release lists as objects."""
    kind = re.search(
        r"@dataclass\nclass WorkloadBaseConfig:.*?(?=\n\n\n)",
        clone.text(tag, "scripts/performance/utils/utils.py"),
        re.DOTALL,
    )
    assert kind
    names: dict[str, Any] = {"__name__": "utils.utils"}
    sys.modules["utils"], sys.modules["utils.utils"] = ModuleType("utils"), ModuleType("utils.utils")
    exec("from dataclasses import dataclass\nfrom typing import *\n" + kind[0], names)
    vars(sys.modules["utils.utils"]).update(names)
    found = []
    for path in clone.files(tag, "scripts/performance/configs"):
        if path.endswith("workload_base_configs.py"):
            inside: dict[str, Any] = {"__name__": path}
            exec(compile(clone.text(tag, path), path, "exec"), inside)
            plain = _without_flex(clone, tag, path)
            for name, value in inside.items():
                match = _NAME.match(name)
                if match and type(value).__name__ == "WorkloadBaseConfig" and not name.startswith("BASE_"):
                    found.append(_listed(path, match, value, plain))
    return found


def _without_flex(clone: Clone, tag: str, path: str) -> set[tuple[str, str]]:
    """(model, card) whose function sets NCCL's exchange itself, in the release where that goes last."""
    found: set[tuple[str, str]] = set()
    if tag != "v0.3.1":
        return found
    for other in clone.files(tag, str(Path(path).parent)):
        parts = re.split(r"\ndef ", clone.text(tag, other)) if other.endswith("_pretrain.py") else []
        for part in parts:
            name = re.match(rf"(\w+?)_pretrain_config_({_CARDS.lower()})\(", part)
            if name and 'moe_token_dispatcher_type = "alltoall"' in part:
                found.add((name[1], name[2]))
    return found


def _listed(path: str, match: re.Match[str], value: Any, plain: set[tuple[str, str]]) -> dict[str, Any]:
    row = {key: getattr(value, name, None) for key, name in FIELDS.items()}
    model, gpu = match["model"].lower(), match["gpu"].lower()
    if (model, gpu) in plain:
        row["exchange"] = None
    task = (match["task"] or match["late"] or "pretrain").lower()
    precision = match["precision"].lower().replace("_", "")
    return {
        **row,
        "path": path,
        "model": model,
        "gpu": gpu,
        "task": task,
        "precision": precision,
        "variant": (match["variant"] or "").lower(),
    }


class Anything:
    """Stands for what a recipe imports: has every attribute, can be called, keeps what is set."""

    def __init__(self, **named: Any) -> None:
        self.__dict__.update(named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = Anything()
        return self.__dict__[name]

    def __call__(self, *_: Any, **named: Any) -> Anything:
        return Anything(**named)

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Any:
        return iter(())


class Recipes(MetaPathFinder, Loader):
    """Imports the recipes of one release from the clone, and anything else they name as `Anything`."""

    def __init__(self, clone: Clone, tag: str) -> None:
        self.clone, self.tag, self.paths = (
            clone,
            tag,
            set(clone.files(tag, "src/megatron/bridge/perf_recipes")),
        )

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Ours are megatron, torch and transformers."""
        ours = name.partition(".")[0] in ("megatron", "torch", "transformers")
        return spec_from_loader(name, self, is_package=True) if ours else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs a recipe's file; a stand-in gets every attribute it is asked for."""
        stem = "src/" + module.__name__.replace(".", "/")
        path = next((p for p in (f"{stem}.py", f"{stem}/__init__.py") if p in self.paths), None)
        if path is None:
            vars(module).update(__getattr__=lambda name: Anything(), __all__=[])
        else:
            module.__file__ = path
            exec(compile(self.clone.text(self.tag, path), path, "exec"), vars(module))


def written(clone: Clone, tag: str) -> list[dict[str, Any]]:
    """Recipes that a release writes as functions."""
    finder = Recipes(clone, tag)
    sys.meta_path.insert(0, finder)
    found = []
    for path in sorted(finder.paths):
        if len(Path(path).parts) == 7 and not path.endswith("__init__.py"):
            module = import_module(path[len("src/") : -len(".py")].replace("/", "."))
            for name, function in vars(module).items():
                match = _FLAT.match(name)
                if match and getattr(function, "__module__", "") == module.__name__:
                    found.append(_written(path, match, function()))
    return found


def _written(path: str, match: re.Match[str], config: Any) -> dict[str, Any]:
    model, train, graphed = config.model, config.train, config.model.cuda_graph_impl == "full_iteration"
    said = {name: value for name, value in vars(model).items() if not isinstance(value, Anything)}
    row = {key: said[name] for key, name in FIELDS.items() if name in said}
    plain = said.get("moe_token_dispatcher_type") == "alltoall"
    usual = LIBRARY_EXCHANGE.get(match["model"])
    return {
        **row,
        **match.groupdict(),
        "path": path,
        "global_batch_seqs": train.global_batch_size,
        "micro_batch_seqs": train.micro_batch_size,
        "fsdp": vars(config.ddp).get("use_megatron_fsdp"),
        "exchange": None if plain else row.get("exchange", usual),
        "overlap": vars(config.comm_overlap).get("overlap_moe_expert_parallel_comm"),
        "fp8_attention": vars(config.mixed_precision).get("fp8_dot_product_attention"),
        "grouped_kernel": graphed and "use_transformer_engine_op_fuser" in said,
        "offload_layers": None,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
