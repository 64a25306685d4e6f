"""A GGUF file made into a plain Hugging Face checkpoint: fp32 safetensors, tokenizer, generation config.

Run in a process of its own (`dequantise` starts it), so that its memory goes back and transformers' warnings
and progress bars stay off the terminal. The child runs this file as a script and imports nothing from bench.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

VERSION = 1  # part of the cache entry's name: raise it when the checkpoint made from a file changes
_FULL = ("No space left on device", "os error 28", "Disk quota exceeded")


def dequantise(gguf: Path, out: Path) -> None:
    """Write the checkpoint of `gguf` into the existing folder `out`.

    Peak memory is about 1.6 times the fp32 checkpoint (4.0 GB for 2.5 GB). Raises `OSError` (ENOSPC) when
    the disk is full and `UserError` when memory runs out or transformers cannot read the file.
    """
    from bench.errors import UserError  # the child, which runs this file alone, has no need of it

    # -P: this folder must not come first on the child's path, its modules have common names.
    done = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).resolve()), str(gguf), str(out)],
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_VERBOSITY": "error",
            "CUDA_VISIBLE_DEVICES": "",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        return
    if any(text in done.stderr for text in _FULL):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out))
    if done.returncode == -signal.SIGKILL or "MemoryError" in done.stderr:
        raise UserError(f"converting {gguf.name} needs more memory than there is; free some and try again")
    last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:300]
    raise UserError(
        f"{gguf} could not be converted ({last}); is it a GGUF file of a model transformers knows?"
    )


def checkpoint_bytes(weights: int) -> int:
    """Size in bytes of the fp32 checkpoint that a GGUF file of so many weights becomes."""
    return 4 * weights + 50_000_000  # tokenizer and configuration


def _convert(gguf: Path, out: Path) -> None:
    """The child's work: load dequantised, take the quantisation off, save."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    _as_released(tokenizer, gguf)
    tokenizer.save_pretrained(out)
    loaded = AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    config = loaded.config
    config.__dict__.pop("quantization_config", None)
    # transformers will not save a model that was loaded quantised, so its tensors move into a fresh one,
    # which is built without memory of its own.
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    plain.load_state_dict(loaded.state_dict(), assign=True)
    plain.tie_weights()
    plain.save_pretrained(out)


def _as_released(tokenizer: Any, gguf: Path) -> None:
    """Give the tokenizer the two steps that GGUF only names (`tokenizer.ggml.pre`) and transformers drops.

    smollm: every digit apart, then GPT-2's rules (HuggingFaceTB/SmolLM2-135M-Instruct tokenizer.json;
    llama.cpp's pre-tokenizer "smollm"). qwen2: NFC normalisation (Qwen/Qwen2.5 tokenizer.json).
    """
    from gguf import GGUFReader
    from tokenizers import normalizers, pre_tokenizers

    field = GGUFReader(gguf).fields.get("tokenizer.ggml.pre")
    rules, name = tokenizer.backend_tokenizer, field.contents() if field else None
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        rules.pre_tokenizer = pre_tokenizers.Sequence([digits, rules.pre_tokenizer])
    elif name == "qwen2":
        rules.normalizer = normalizers.NFC()


if __name__ == "__main__":
    _convert(Path(sys.argv[1]), Path(sys.argv[2]))
