"""Models that cannot be run, and files that are not whole, are refused before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader
from safetensors.numpy import save

from bench.assets import convert, gguf_files, models
from bench.assets.supported import check_config
from bench.errors import UserError
from tests._gguf import TENSORS, split_gguf, tiny_gguf

QWEN2 = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 24}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
MISTRAL = {
    "model_type": "mistral", "architectures": ["MistralForCausalLM"], "max_position_embeddings": 32768,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCBENCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "config",
    [
        LLAMA,
        {"model_type": "qwen3"},
        LLAMA | {"rope_scaling": None},
        *(LLAMA | {"rope_scaling": {"rope_type": kind}} for kind in ("linear", "llama3", "yarn", "default")),
        LLAMA | {"rope_parameters": {"rope_theta": 1e4, "rope_type": "default"}},
        LLAMA | {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        MISTRAL | {"sliding_window": None},
        MISTRAL | {"sliding_window": 32768},
        QWEN2 | {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 12},
        QWEN2 | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 24},
        QWEN2 | {"layer_types": ["full_attention"] * 24},
    ],
)
def test_what_is_supported_passes(config: dict[str, Any]) -> None:
    check_config(config, "m")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}, "architecture Gemma2ForCausalLM"),
        ({"model_type": "qwen3_moe"}, "architecture qwen3_moe"),
        ({}, "that config.json leaves out"),
        (LLAMA | {"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        *(
            (LLAMA | {"quantization_config": {"quant_method": name}}, f"quantised ({name})")
            for name in ("gptq", "awq", "bitsandbytes", "fp8")
        ),
        (MISTRAL | {"sliding_window": 4096}, "sliding window of 4096 tokens is in use"),
        (
            QWEN2 | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 12},
            "sliding window of 4096",
        ),
        (QWEN2 | {"layer_types": ["full_attention", "sliding_attention"]}, "layers with sliding_attention"),
        (LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "RoPE scaling dynamic"),
        (LLAMA | {"rope_parameters": {"rope_type": "longrope"}}, "RoPE scaling longrope"),
        (LLAMA | {"rope_scaling": 2.0}, "rope_scaling is no mapping"),
        (LLAMA | {"hidden_act": "gelu"}, "hidden_act gelu"),
        (LLAMA | {"mlp_bias": True}, "mlp_bias"),
        (LLAMA | {"num_attention_heads": 0}, "field 'num_attention_heads' is 0"),
    ],
)
def test_what_is_not_is_one_line_that_names_what_is(config: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError) as caught:
        check_config(config, "m")
    line = str(caught.value)
    assert line.startswith("m: ")
    assert reason in line
    assert "supported are unquantised Llama, Mistral, Qwen2 and Qwen3 models" in line


@pytest.mark.parametrize("content", ["", "{", "[]", "7"])
def test_a_configuration_that_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UserError, match=r"config\.json (is not JSON|holds no mapping)"):
        models.resolve(str(tmp_path))


def checkpoint_with(folder: Path, weights: bytes, name: str = "model.safetensors") -> str:
    (folder / "config.json").write_text(json.dumps(LLAMA))
    (folder / "tokenizer.json").write_text("{}")
    (folder / name).write_bytes(weights)
    return str(folder)


def test_quantised_without_a_word_in_the_configuration(tmp_path: Path) -> None:
    weights = save({"model.layers.0.mlp.up_proj.qweight": np.zeros(4, np.int32)})
    with pytest.raises(UserError, match="quantised"):
        models.resolve(checkpoint_with(tmp_path, weights))
    (tmp_path / "quantize_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"quantised \(quantize_config\.json\)"):
        models.resolve(str(tmp_path))


def test_weights_cut_short_anywhere_are_said_to_be(tmp_path: Path) -> None:
    whole = save({"w": np.ones(20, np.float32)})
    for length in range(len(whole)):
        with pytest.raises(UserError, match=r"model\.safetensors is cut short"):
            models.resolve(checkpoint_with(tmp_path, whole[:length]))
    assert models.resolve(checkpoint_with(tmp_path, whole)).source == "local"
    with pytest.raises(UserError, match="is a Git LFS pointer"):
        models.resolve(checkpoint_with(tmp_path, b"version https://git-lfs.github.com/spec/v1\noid sha256:1"))


def test_torch_weights_cut_short(tmp_path: Path) -> None:
    import torch

    file = tmp_path / "whole"
    torch.save({"w": torch.ones(20)}, file)
    whole = file.read_bytes()
    file.unlink()
    assert models.resolve(checkpoint_with(tmp_path, whole, "pytorch_model.bin")).source == "local"
    for length in (0, 10, len(whole) // 2, len(whole) - 30):
        with pytest.raises(UserError, match=r"pytorch_model\.bin is cut short"):
            models.resolve(checkpoint_with(tmp_path, whole[:length], "pytorch_model.bin"))


# GGUF


def test_a_gguf_file_cut_short_anywhere_is_said_to_be(tmp_path: Path) -> None:
    whole = tiny_gguf(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(4, len(whole) - 31):  # the last tensor is padded to 32 bytes
        cut.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.gguf is cut short"):
            models.resolve(str(cut))
    cut.write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        models.resolve(str(cut))


@pytest.mark.parametrize(
    ("architecture", "extra", "reason"),
    [
        ("gemma2", {}, "cannot run the architecture gemma2; supported are"),
        ("llama", {"rope_freqs.weight": np.array([1, 8], np.float32)}, "give the safetensors checkpoint"),
    ],
)
def test_a_gguf_file_of_a_model_that_cannot_be_run(
    tmp_path: Path, architecture: str, extra: dict[str, np.ndarray], reason: str
) -> None:
    path = tiny_gguf(tmp_path / "m.gguf", architecture, extra)
    with pytest.raises(UserError, match=reason):
        models.resolve(str(path))


def test_any_part_of_a_split_file_stands_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []

    def fake(gguf: Path, out: Path) -> None:
        reader = GGUFReader(gguf)
        joined.append({t.name: np.array(t.data) for t in reader.tensors})
        fields = {name: field.contents() for name, field in reader.fields.items()}
        assert fields["general.architecture"] == "llama"
        assert fields["tokenizer.ggml.tokens"] == ["a", "b", "ρ"]
        assert not any(name.startswith("split.") for name in fields)
        (out / "config.json").write_text("{}")

    monkeypatch.setattr(convert, "dequantise", fake)
    parts = split_gguf(tmp_path, "big", 3)
    found = [models.resolve(str(part)) for part in parts]
    assert found[0] == found[1] == found[2]
    assert (found[0].name, found[0].source) == ("big", "gguf")
    assert [path.name for path in found[0].path.iterdir() if path.is_dir()] == [], "the joined file is gone"
    assert len(joined) == 1, "made once, whichever part is named"
    assert joined[0].keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        np.testing.assert_array_equal(joined[0][name], tensor)


def test_a_missing_part_and_a_renamed_one(tmp_path: Path) -> None:
    first, second, third = split_gguf(tmp_path, "big", 3)
    alone = tmp_path / "alone.gguf"
    second.rename(alone)
    with pytest.raises(UserError, match=r"big-00002-of-00003\.gguf of its 3 parts is missing"):
        models.resolve(str(first))
    with pytest.raises(UserError, match=r"alone\.gguf is part 2 of 3 by its own words"):
        models.resolve(str(alone))
    third.unlink()
    with pytest.raises(UserError, match="and 1 more of its 3 parts is missing"):
        gguf_files.parts(first)
