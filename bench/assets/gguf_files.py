"""GGUF files before they are converted: what they hold, whether they are whole, split ones joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.assets.supported import ARCHITECTURES, SUPPORTED
from bench.errors import UserError

if TYPE_CHECKING:
    from gguf import GGUFReader

_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
"""llama.cpp's names of a split file's parts (llama.h, `llama_split_path`)."""
_WRONG = ("version", "alignment", "is not a valid", "utf-8")
"""Of the reader's complaints, those about bytes that are there."""
_ARCHITECTURE, _COUNT, _NUMBER = "general.architecture", "split.count", "split.no"


def parts(path: Path) -> list[Path]:
    """All parts of a split file of which `path` is one, in order; `path` alone where it is whole.

    Raises `UserError` where a part is missing.
    """
    match = _PART.fullmatch(path.name)
    if match is None or match["count"] == "00000":
        return [path]
    count = int(match["count"])
    every = [path.with_name(f"{match['stem']}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1)]
    missing = [part.name for part in every if not part.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UserError(
            f"{path}: {missing[0]}{more} of its {count} parts is missing; put all parts into one folder"
        )
    return every


def stem(path: Path) -> str:
    """The model's name: the file's, without the number of a part."""
    match = _PART.fullmatch(path.name)
    return match["stem"] if match else path.stem


def read(path: Path) -> GGUFReader:
    """Open a GGUF file. Raises `UserError` where it is none, or ends before its tensors do."""
    from gguf import GGUFReader

    with path.open("rb") as file:
        begins = file.read(4)
    if not begins:
        raise UserError(f"{path} is empty; fetch it again")
    if begins != b"GGUF":
        raise UserError(f"{path} is not a readable GGUF file: it does not begin as one")
    try:
        return GGUFReader(path)
    except (IndexError, ValueError, KeyError) as error:
        # The reader maps the file: what lies behind its end comes out as too few bytes to index or to shape.
        if isinstance(error, KeyError) or any(word in str(error) for word in _WRONG):
            raise UserError(f"{path} is not a readable GGUF file ({error})") from error
        raise UserError(f"{path} is cut short: it ends before its tensors do; fetch it again") from error


def check(files: Sequence[Path]) -> int:
    """The number of weights in a model's files. Raises `UserError` for a model that cannot be run.

    `files` are the parts of one model, as `parts` names them.
    """
    readers = [read(path) for path in files]
    first, path = readers[0], files[0]
    for number, (reader, part) in enumerate(zip(readers, files, strict=True)):
        count = _value(reader, _COUNT) or 1
        if count != len(files) or (count > 1 and _value(reader, _NUMBER) != number):
            raise UserError(
                f"{part} is part {(_value(reader, _NUMBER) or 0) + 1} of {count} by its own words; "
                "give parts the names NAME-00001-of-0000N.gguf they came with"
            )
    architecture = _value(first, _ARCHITECTURE)
    if architecture not in ARCHITECTURES:
        raise UserError(f"{path}: cache fusion cannot run the architecture {architecture}; {SUPPORTED}")
    if _value(first, f"{architecture}.attention.sliding_window"):
        raise UserError(f"{path}: a sliding window is in use; {SUPPORTED}")
    for reader in readers:
        for tensor in reader.tensors:
            if tensor.name == "rope_freqs.weight" and (tensor.data != 1).any():
                raise UserError(
                    f"{path}: its Llama-3 RoPE factors (rope_freqs.weight) get lost when transformers reads "
                    "a GGUF file; give the safetensors checkpoint"
                )
    return sum(int(tensor.n_elements) for reader in readers for tensor in reader.tensors)


def join(files: Sequence[Path], target: Path) -> None:
    """Write the parts of a split file as one, without the fields that say where it was split.

    Metadata is the first part's, as in llama.cpp's `llama-gguf-split --merge`. Raises `OSError`.
    """
    from gguf import GGUFValueType, GGUFWriter

    readers = [read(path) for path in files]
    writer = GGUFWriter(target, arch=_value(readers[0], _ARCHITECTURE))
    for field in readers[0].fields.values():
        if field.name != _ARCHITECTURE and not field.name.startswith(("GGUF.", "split.")):
            kinds = field.types
            inner = kinds[-1] if kinds[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kinds[0], inner)
    tensors = [tensor for reader in readers for tensor in reader.tensors]
    for t in tensors:
        writer.add_tensor_info(t.name, t.data.shape, t.data.dtype, t.data.nbytes, t.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for t in tensors:
        writer.write_tensor_data(t.data)
    writer.close()


def _value(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    return None if field is None else field.contents()
