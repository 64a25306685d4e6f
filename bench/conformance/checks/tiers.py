"""Where the caches lie must not matter."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.conformance.outcome import Broken
from bench.conformance.stand import Stand
from bench.store.disk import DiskStore


def memory_and_disk_tier_agree(stand: Stand) -> None:
    """Selection and logits are the same to the bit from host memory and from files.

    Released codes compare a method whose cache is warm on the GPU with one that loads; here a tier may
    change times only.
    """
    request = stand.request()
    with stand.setup() as setup:
        memory = setup.run(request)
    with tempfile.TemporaryDirectory() as folder, stand.setup(DiskStore(Path(folder))) as setup:
        disk = setup.run(request)
    if not memory.same(disk):
        raise Broken("from disk the answer is another one", "select()")
