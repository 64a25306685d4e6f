"""Commands of `qcbench`, one a file: `add` names its arguments, `_do` does it."""
