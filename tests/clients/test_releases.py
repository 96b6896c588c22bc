"""The written files name the releases that these tests run with."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from shardwise.launch.releases import releases

pytestmark = pytest.mark.clients


@pytest.mark.parametrize("package", releases())
def test_the_named_release_is_the_one_installed(package: str) -> None:
    """Local labels such as +cpu aside."""
    assert version(package).partition("+")[0] == releases()[package]


def test_layer_classes_exist() -> None:
    """Each family's layer class is what transformers will not split."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    from shardwise.launch.families import families

    for name, family in families().items():
        model = MODEL_FOR_CAUSAL_LM_MAPPING[type(AutoConfig.for_model(name))]

        assert family.layer_class in model._no_split_modules
