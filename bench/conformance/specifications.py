"""Which methods there are to check."""

from __future__ import annotations

from bench import plugins
from bench.methods import method_of


def specifications() -> list[str]:
    """Every file in `methods/`, and its released variant where the released code differs."""
    specs = []
    for name in plugins.available("methods"):
        specs.append(name)
        if type(method_of(name).method).released:
            specs.append(f"{name}[variant=released]")
    return specs
