"""Find methods: "qcfuse", "qcfuse[layers=1,anchor_ratio=0.2]", "./mine.py"."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from bench import plugins
from bench.errors import UserError
from bench.method import Method
from bench.specification import parse


@dataclass(frozen=True)
class NamedMethod:
    """A method with its parameters, its name and the hash of its source."""

    name: str
    method: Method
    params: dict[str, Any]
    """The variant if it is not the paper's, and the parameters that differ from the variant's."""
    source_sha256: str

    @property
    def identity(self) -> str:
        """Hash of the source and of all parameters: what prepared artifacts depend on."""
        everything = f"{self.source_sha256}:{sorted(asdict(self.method).items())}"
        return hashlib.sha256(everything.encode()).hexdigest()[:16]

    @property
    def about(self) -> str:
        """The first line of the class's docstring."""
        return (inspect.getdoc(type(self.method)) or "").split("\n")[0]


def method_of(spec: str) -> NamedMethod:
    """Load a method from its specification.

    Raises `UserError` for an unknown name, a file that is not there or defines no `METHOD`, and
    parameters the method does not have or cannot take.
    """
    name, params = parse(spec, "method")
    module = plugins.load_checked("methods", name)
    cls = getattr(module, "METHOD", None)
    if not (inspect.isclass(cls) and issubclass(cls, Method)):
        raise UserError(f"{module.__file__}: define METHOD = <your subclass of bench.method.Method>")
    variant = params.pop("variant", "paper")
    if variant != "paper" and not (variant == "released" and cls.released):
        known = "paper or released" if cls.released else "paper alone: no code of it differs"
        raise UserError(f"method {spec!r}: variant {variant!r}; there is {known}")
    chosen = dict(cls.released) if variant == "released" else {}
    unknown = set(params) - {f for f in cls.__dataclass_fields__ if not f.startswith("_")}
    if unknown:
        known = ", ".join(cls.__dataclass_fields__) or "none"
        raise UserError(f"method {spec!r}: no parameter {', '.join(sorted(unknown))} (it has: {known})")
    bare = [f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING]
    if bare:
        raise UserError(f"{module.__file__}: give {', '.join(bare)} a default")
    try:
        bases = TypeAdapter(cls).validate_python(chosen)
        method = TypeAdapter(cls).validate_python({**chosen, **params})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"method {spec!r}: {where}: {first['msg']}") from error
    source = Path(str(module.__file__)).read_bytes()
    base = asdict(bases)
    different: dict[str, Any] = {} if variant == "paper" else {"variant": variant}
    different |= {k: v for k, v in asdict(method).items() if base[k] != v}
    return NamedMethod(Path(name).stem, method, different, hashlib.sha256(source).hexdigest())
