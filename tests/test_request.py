"""Reading a request: precedence, origins, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import shardwise
from shardwise.hardware import Cluster
from shardwise.hardware.topology import Description
from shardwise.inputs import InputError
from shardwise.inputs.lines import json_lines, toml_lines
from shardwise.models import Training
from shardwise.plans import Choose, Request, read_request
from shardwise.plans.cluster_table import CLUSTER_KEYS, DESCRIBED, cluster_of
from shardwise.plans.read import read_asked
from shardwise.plans.settings import FIELDS, parsed, value_of

JOB = """model = "llama-3.1-8b"
[cluster]
preset = "dgx-h100"
nodes = 2
[training]
global_batch_size = 64
sequence_length = 4096
total_tokens = "1T"
[choose]
tensor_parallel = [8, 1, 2, 2]
pipeline_parallel = "1..3"
backend = "fsdp"
[limits]
host_memory_bytes = "512GiB"
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A whole request in a file."""
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def written(folder: Path, text: str, name: str = "job.toml") -> str:
    """The path of a new file with `text`."""
    path = folder / name
    path.write_text(text)
    return str(path)


def refusal(source: str | None, flags: dict[str, object] | None = None, *sets: str) -> InputError:
    """The error of a request that must not be read."""
    with pytest.raises(InputError) as caught:
        read_request(source, flags or {}, sets)
    return caught.value


def test_a_file_is_read_whole(job: Path) -> None:
    """One value, a list and a range become tuples; amounts become numbers."""
    request = read_request(str(job))
    assert request.choose.tensor_parallel == (1, 2, 8)
    assert request.choose.pipeline_parallel == (1, 2, 3)
    assert request.choose.backend == ("fsdp",)
    assert request.choose.precision is None
    assert request.limits.host_memory_bytes == 512 * 2**30
    assert request.training.total_tokens == 10**12
    assert (request.cluster.nodes, request.cluster.node.gpus) == (2, 8)


def test_each_value_remembers_its_origin(job: Path) -> None:
    """File and line, setting, flag, or default: the last one to speak is named."""
    flags = {"cluster.nodes": "4", "training.optimizer": "sgd"}
    request = read_request(str(job), flags, ["micro_batch_size=2", "cluster.nodes=3"])
    assert request.cluster.nodes == 3
    assert request.origin("cluster.nodes") == "--set cluster.nodes=3"
    assert request.origin("training.optimizer") == "--optimizer"
    assert request.origin("cluster.preset") == f"{job}:3"
    assert request.origin("training.sequence_length") == f"{job}:7"
    assert request.origin("choose.micro_batch_size") == "--set micro_batch_size=2"
    assert request.origin("choose.zero_stage") == "default"
    assert request.origin("limits.memory_margin") == "default"


def test_set_over_flag_over_file_over_default(job: Path) -> None:
    """The nearer to the user, the stronger: a pasted cure changes what the command said."""
    batch = "training.global_batch_size"
    assert read_request(str(job)).training.global_batch_size == 64
    assert read_request(str(job), {}, [f"{batch}=32"]).training.global_batch_size == 32
    assert read_request(str(job), {batch: "16"}, [f"{batch}=32"]).training.global_batch_size == 32
    assert read_request(str(job), {batch: None}).training.global_batch_size == 64
    assert read_request(str(job)).limits.memory_margin == 0.08


def test_a_stronger_rival_displaces_a_weaker_one(job: Path) -> None:
    """--gpus over a file with nodes is no contradiction; both at once is."""
    request = read_request(str(job), {"cluster.gpus": 32})
    assert request.cluster.nodes == 4
    tokens = read_request(str(job), {}, [f"global_batch_tokens={4096 * 10}"])
    assert tokens.training.global_batch_size == 10
    both = refusal(str(job), {"cluster.gpus": 32, "cluster.nodes": 4})
    assert (both.code, both.field, both.origin) == ("contradiction", "cluster.gpus", "--gpus")


def test_no_file_is_needed() -> None:
    """A catalogue name and flags make a request."""
    flags = {
        "cluster.preset": "dgx-h100",
        "training.global_batch_size": "8",
        "training.sequence_length": "2048",
    }
    request = read_request("llama-3.1-8b", flags)
    assert request.origin("model") == "MODEL"
    assert request.origin("cluster.preset") == "--cluster"
    assert request.cluster.nodes == 1


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "-" is the request on standard input, TOML or JSON."""
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))
    from_toml = read_request("-")
    monkeypatch.setattr("sys.stdin", io.StringIO(from_toml.model_dump_json()))
    assert read_request("-").inputs_hash() == from_toml.inputs_hash()
    assert from_toml.origin("cluster.nodes") == "stdin:4"


def test_requests_round_trip_through_json(job: Path, tmp_path: Path) -> None:
    """A request written as JSON reads back equal, by pydantic and by the reader."""
    request = read_request(str(job), {"cluster.gpus": 4})
    assert Request.model_validate_json(request.model_dump_json()) == request
    again = read_request(written(tmp_path, request.model_dump_json(), "job.json"))
    assert again.inputs_hash() == request.inputs_hash()


def test_the_hash_is_of_the_content(job: Path, tmp_path: Path) -> None:
    """Neither origins nor the order of keys and values change the hash; any value does."""
    base = read_request(str(job)).inputs_hash()
    shuffled = JOB.replace("[8, 1, 2, 2]", "[1, 2, 8]").replace('backend = "fsdp"', "") + "\n[objective]\n"
    shuffled = shuffled.replace("[choose]", '[choose]\nbackend = ["fsdp"]')
    assert read_request(written(tmp_path, shuffled, "other.toml")).inputs_hash() == base
    assert read_request(str(job), {"cluster.nodes": 2}).inputs_hash() == base
    assert read_request(str(job), {"cluster.nodes": 3}).inputs_hash() != base
    assert len(base) == 16


def test_a_model_path_starts_from_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative model path is looked for beside the request file."""
    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000, "rms_norm_eps": 1e-5,
        "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False, "max_position_embeddings": 2048,
        "hidden_act": "silu", "attention_bias": False,
    }  # fmt: skip
    written(tmp_path, json.dumps(config), "config.json")
    source = written(tmp_path, JOB.replace("llama-3.1-8b", "config.json"))
    monkeypatch.chdir("/")
    from_request = read_request(source)
    flags = {"cluster.preset": "dgx-h100", "training.global_batch_size": 8, "training.sequence_length": 2048}
    direct = read_request(str(tmp_path / "config.json"), flags)
    folder = read_request(str(tmp_path), flags)
    assert from_request.model.layers == direct.model.layers == folder.model.layers == 2


def test_requests_are_made_in_python() -> None:
    """Names and tables are made into nouns; what was given is told from defaults."""
    request = Request.model_validate(
        {
            "model": "llama-3.1-8b",
            "cluster": Cluster.preset("dgx-h100", nodes=1),
            "training": Training(global_batch_size=8, sequence_length=2048),
            "choose": {"tensor_parallel": [1, 2]},
        }
    )
    assert request.origin("choose.tensor_parallel") == "argument"
    assert request.origin("cluster.nodes") == "argument"
    assert request.origin("training.optimizer") == "default"
    with pytest.raises(ValidationError):
        Request.model_validate({"model": "llama-3.1-8b"})


def test_changed_requests_are_checked_again(job: Path) -> None:
    """A cure is a request with one dotted field changed."""
    request = read_request(str(job))
    changed = request.changed({"cluster.nodes": 4, "choose.zero_stage": 3, "limits.memory_margin": 0.0})
    assert (changed.cluster.nodes, changed.choose.zero_stage, changed.limits.memory_margin) == (4, (3,), 0.0)
    assert request.cluster.nodes == 2
    assert request.changed({"cluster.gpus": 32}).cluster.nodes == 4
    assert request.changed({"choose.backend": None}).choose.backend is None
    assert request.changed({"training.sequence_length": 8192}).training.sequence_length == 8192
    for field, value in [
        ("cluster.nodes", 0), ("cluster.nope", 1), ("nope", 1), ("limits.memory_margin", 2.0),
        ("cluster.gpus", 0), ("choose.backend", "fdsp"), ("cluster.preset", "nope"), ("model", "no-model"),
    ]:  # fmt: skip
        with pytest.raises(InputError) as caught:
            request.changed({field: value})
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("nodes=-1", "cluster.nodes"),
        ("nodes=0", "cluster.nodes"),
        ("nodes=65537", "cluster.nodes"),
        ("nodes=2.0", "cluster.nodes"),
        ("nodes=true", "cluster.nodes"),
        ("nodes=two", "cluster.nodes"),
        ("oversubscription=0.5", "cluster.oversubscription"),
        ("oversubscription=nan", "cluster.oversubscription"),
        ("preset=dgx-h10", "cluster.preset"),
        ("file=topo.txt", "cluster.file"),
        ("global_batch_size=-5", "training.global_batch_size"),
        ("global_batch_tokens=1000", "training.global_batch_tokens"),
        ("sequence_length=1e3", "training.sequence_length"),
        ("optimizer=lyon", "training.optimizer"),
        ("total_tokens=-1T", "training.total_tokens"),
        ("trainable=lora(x)", "training.trainable"),
        ("tensor_parallel=8..1", "choose.tensor_parallel"),
        ("tensor_parallel=[]", "choose.tensor_parallel"),
        ("tensor_parallel=0", "choose.tensor_parallel"),
        ("tensor_parallel=1.5", "choose.tensor_parallel"),
        ("tensor_parallel=true", "choose.tensor_parallel"),
        ("data_parallel=1..9999999", "choose.data_parallel"),
        ("zero_stage=4", "choose.zero_stage"),
        ("precision=int4", "choose.precision"),
        ("backend=[1]", "choose.backend"),
        ("software_stack=nope", "choose.software_stack"),
        ("sequence_parallel=1", "choose.sequence_parallel"),
        ("rules=[[]]", "choose.rules"),
        ("memory_margin=0.95", "limits.memory_margin"),
        ("memory_margin=-0.1", "limits.memory_margin"),
        ("memory_margin=nan", "limits.memory_margin"),
        ("tensor_parallel_within=room", "limits.tensor_parallel_within"),
        ("max_step_seconds=0", "limits.max_step_seconds"),
        ("host_memory_bytes=1.5XB", "limits.host_memory_bytes"),
        ("max_usd_per_hour=0", "limits.max_usd_per_hour"),
        ("minimize=fun", "objective.minimize"),
        ("cluster.node.nic_bytes_per_s=-1", "cluster.node.nic_bytes_per_s"),
    ],
)
def test_bad_values_are_told_with_field_and_origin(job: Path, setting: str, field: str) -> None:
    """Each refusal names the dotted field and the setting it came from."""
    error = refusal(str(job), {}, setting)
    assert (error.field, error.origin) == (field, f"--set {setting}")


@pytest.mark.parametrize(
    "setting", ["tensor_paralel=4", "=4", "tensor_parallel", "choose.nodes=2", "a.b.c=1"]
)
def test_unknown_settings_say_what_was_meant(job: Path, setting: str) -> None:
    """A setting that is no field is refused with near names or the form to write."""
    error = refusal(str(job), {}, setting)
    assert error.field == "--set"
    assert error.legal


def test_near_names_come_first(job: Path) -> None:
    """Did you mean: the nearest legal word stands first."""
    assert refusal(str(job), {}, "tensor_paralel=4").legal[0] == "tensor_parallel"
    assert refusal(str(job), {}, "backend=fdsp").legal[0] == "fsdp"
    assert refusal(str(job), {}, "preset=dgx-h10").legal[0] == "dgx-h100"
    assert refusal("llama-3.1-8", {}).legal[0] == "llama-3.1-8b"
    assert refusal(str(job), {}, "overlap=true").legal[0] == "overlap_gradient_reduce"
    with job.open("a") as file:
        file.write("\n[choose.overlap]\ngradient_reduce = false\n")
    assert refusal(str(job), {}).legal[0] == "overlap_gradient_reduce"


@pytest.mark.parametrize(
    ("old", "new", "field", "line"),
    [
        ("nodes = 2", "nodes = -2", "cluster.nodes", 4),
        ("nodes = 2", "nods = 2", "cluster.nods", 4),
        ("nodes = 2", 'nodes = "2"', "cluster.nodes", 4),
        ("nodes = 2", "nodes = 2\ngpus = 16", "cluster.gpus", 5),
        ("nodes = 2", 'nodes = 2\nfile = "cluster.toml"', "cluster.file", 5),
        ("sequence_length = 4096", "sequence_length = 2020-01-01", "training.sequence_length", 7),
        ("sequence_length = 4096", "sequence_length = inf", "training.sequence_length", 7),
        ('"1..3"', '"3..1"', "choose.pipeline_parallel", 11),
        ("[limits]", "[limit]", "limit", 13),
        ("[training]", "[training]\nglobal_batch_tokens = 4096", "training.global_batch_tokens", 6),
        ("[limits]", "[limits]\nmemory_margin = nan", "limits.memory_margin", 14),
    ],
)
def test_errors_of_a_file_name_the_line(tmp_path: Path, old: str, new: str, field: str, line: int) -> None:
    """The origin of a value in a file is the file and the line of its key."""
    source = written(tmp_path, JOB.replace(old, new))
    error = refusal(source)
    assert (error.field, error.origin) == (field, f"{source}:{line}")


@pytest.mark.parametrize(
    "text",
    [
        "", "   \n", "= 4", "a = [", "a = 1\na = 2", "\x00\x01", "[" * 3000, "x = " + "[" * 3000, "[]", "{",
        '{"a": NaN}', "[limits]\nmemory_margin = [0x" + "f" * 9000 + "]",
        '{"model": ' + '{"a":' * 30 + "1" + "}" * 31, '{"model": ' + "[" * 100000, "model = 1" + "9" * 5000,
        '{"model": 1' + "9" * 5000 + "}", 'model = "x"\n' * 2, "#" * 70000, "cluster = 3", "training = []",
        "a." * 20000 + "b = 1", "model = 5", "[model]\nname = 3", "null", '"text"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["job.toml", "job.json"])
def test_no_text_breaks_the_reader(tmp_path: Path, text: str, name: str) -> None:
    """Broken, deep, long, empty and binary files are one short `InputError`."""
    assert len(str(refusal(written(tmp_path, text, name)))) < 400


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["model", "cluster", "choose", "nodes", "preset", "rules"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_breaks_the_reader(tmp_path: Path, data: object) -> None:
    """Any JSON is a request or an `InputError`."""
    source = written(tmp_path, json.dumps({"model": "llama-3.1-8b", "choose": data}), "job.json")
    refusal(source)


@pytest.mark.parametrize(
    "source", ["", "no-such-model", "no/such/file.toml", "nope.json", "a\0b", "x" * 5000]
)
def test_no_source_breaks_the_reader(source: str) -> None:
    """What is neither file nor name is refused."""
    refusal(source)


def test_what_is_missing_says_how_to_give_it(tmp_path: Path) -> None:
    """A request without model, cluster or batch names the field and the flag."""
    assert refusal(None).field == "model"
    assert "--cluster" in refusal("llama-3.1-8b").reason
    error = refusal("llama-3.1-8b", {"cluster.preset": "dgx-h100"})
    assert (error.field, error.origin) == ("training.global_batch_size", "command line")
    assert "--global-batch-size" in error.reason


def test_lines_of_keys_are_found() -> None:
    """Tables, dotted and quoted keys, comments and nested objects: each key has its line."""
    toml = "# a\nmodel = 1 # nodes = 3\n[ cluster ] # c\n'nodes' = 2\na.b = [\n 1,\n]\n[choose]\n\"x\" = 1"
    assert toml_lines(toml) == {
        "model": 2, "cluster": 3, "cluster.nodes": 4, "cluster.a.b": 5, "cluster.a.b.0": 6,
        "choose": 8, "choose.x": 9,
    }  # fmt: skip
    text = '{\n"a": {"b": [1, {"c": 2}],\n"d": "x: {"},\n"e\\u0041": 3}'
    assert json_lines(text) == {"a": 2, "a.b": 2, "a.d": 3, "eA": 4, "a.b.1": 2, "a.b.1.c": 2}


def test_settings_read_toml_values() -> None:
    """Values are TOML where they can be, text where they cannot, and never more than one value."""
    assert value_of("[1, 2]", "choose.tensor_parallel") == [1, 2]
    assert value_of("true", "choose.sequence_parallel") is True
    assert value_of("none", "choose.offload_optimizer") == "none"
    assert value_of("1\ny = 2", "cluster.nodes") == "1\ny = 2"
    assert value_of("4", "model") == "4"
    assert {"model", "cluster.nodes", "choose.rules", "limits.memory_margin", "objective.minimize"} <= set(
        FIELDS
    )


def test_choose_keeps_a_fixed_order() -> None:
    """Equal sets of values are equal, however they were written."""
    one = Choose.model_validate({"recompute": ["full", "none", "full"], "tensor_parallel": [4, 2, 4]})
    other = Choose.model_validate({"recompute": ["none", "full"], "tensor_parallel": (2, 4)})
    assert one == other
    assert Choose.model_validate_json(one.model_dump_json()) == one


FACE: Any = shardwise
"""The library as a caller without types sees it."""


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (lambda request: FACE.plan(None), "request"),
        (lambda request: FACE.plan({"model": "llama-3.1-8b"}), "request"),
        (lambda request: FACE.plan(request, time_limit=""), "time_limit"),
        (lambda request: FACE.plan(request, time_limit=float("nan")), "time_limit"),
        (lambda request: FACE.plan(request, time_limit=10**5000), "time_limit"),
        (lambda request: FACE.plan(request, time_limit=0), "time_limit"),
        (lambda request: FACE.price(None, []), "request"),
        (lambda request: FACE.price(request, None), "strategy"),
        (lambda request: FACE.Planner(request.cluster).plan(None), "request"),
        (lambda request: FACE.Cluster.preset(10**5000), "cluster.preset"),
        (lambda request: FACE.Cluster.preset("dgx-h100", nodes=int), "cluster.nodes"),
    ],
)
def test_wrong_types_in_python(asked: Callable[[Request], object], field: str, job: Path) -> None:
    """What is no request, strategy, count or limit is the one error, as it is in a file."""
    request = read_request(str(job))
    with pytest.raises(InputError) as told:
        asked(request)
    assert told.value.field == field


BESIDE: dict[str, object] = {
    "nodes": 2, "gpus": 4, "oversubscription": 2.0, "leaf_nodes": 2, "free": [[8, 6], [3]],
    "pool": [{"machine": "dgx-a100-80gb"}], "gpu": "A100-SXM-80GB", "gpus_per_node": 4, "link": "pcie",
    "island_gpus": 4, "nvlink_domain": 16, "nics_per_node": 2, "nic_gbit_per_s": 100, "fabric": "roce",
    "host_class": "ddr4-1s", "host_memory_gib": 100, "cpu_cores": 16, "nvme_tb": 1, "usd_per_hour": 3.5,
    "mig": "3g.40gb", "measured_bus_gb_per_s": 40, "machine": "dgx-a100-80gb", "file": "cluster.toml",
    "topology": "topo.txt", "site": "site.json",
}  # fmt: skip


def test_each_key_of_the_cluster_has_its_value_here() -> None:
    """The list above holds every key that may stand beside a preset."""
    assert BESIDE.keys() == {key for key in CLUSTER_KEYS if key != "preset"}
    assert [name for name in Description.model_fields if name not in ("name", "nodes")] == [*DESCRIBED]


@pytest.mark.parametrize("key", BESIDE)
def test_no_key_beside_a_preset_passes_unread(key: str) -> None:
    """It changes the cluster or is refused by its name: nothing a person writes is silently left out."""
    plain = cluster_of({"preset": "dgx-h100"})
    try:
        found = cluster_of({"preset": "dgx-h100", key: BESIDE[key]})
    except InputError as error:
        assert key in f"{error.field} {error.reason}"
    else:
        assert found != plain, key


@pytest.mark.parametrize(
    "setting",
    [
        "total_tokens=1T",
        "total_tokens=30e9",
        "global_batch_tokens=131072",
        "reference_model=llama-3.2-1b",
        "reference_model=self",
        "trainable=lora(16)",
        "recompute_modules=mlp",
        "frozen=embedding,head",
        "tensor_parallel=1..4",
        "zero_stage=[1, 2]",
        "host_memory_bytes=512GiB",
        "max_uplink_bytes_per_step=40GB",
        "memory_margin=0.1",
        "nodes=4",
        "gpus=4",
        "preset=dgx-a100-80gb",
        "oversubscription=2",
        "nic_gbit_per_s=200",
        "cluster.node.gpu.memory_usable_bytes=40GiB",
    ],
)
def test_a_change_reads_values_as_a_setting_does(setting: str) -> None:
    """`why` and `compare` lay over a request what --set lays over its file: equal words, equal requests."""
    flags = {"cluster.preset": "dgx-h100", "cluster.nodes": 2}
    flags |= {"training.global_batch_size": 64, "training.sequence_length": 2048}
    asked = read_asked("llama-3.2-1b", flags)
    field, value, _ = parsed(setting)

    assert asked.request().changed({field: value}).inputs_hash() == asked.request(setting).inputs_hash()
