"""Several processes and one store: two writers, a shared size limit, one killed while it writes."""

from __future__ import annotations

from pathlib import Path

from bench.store.buffers import PAGE, aligned
from bench.store.disk import DiskStore
from bench.store.files import SUFFIX, TEMPORARY
from tests.store._entries import LAYERS, PLACES, entry, in_process, same

WRITE = """
import sys
from pathlib import Path
from bench.store.disk import DiskStore
from tests.store._entries import entry
store = DiskStore(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    store.put("chunk", entry(600))
"""


def test_two_writers_of_one_chunk(tmp_path: Path) -> None:
    store, expected = DiskStore(tmp_path), entry(600)
    writers = [in_process(WRITE, tmp_path) for _ in range(2)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    reads = 0
    while any(writer.poll() is None for writer in writers):
        if "chunk" in store:
            reads += 1
            store._open.clear()  # open whatever has the name now
            found = store.read("chunk", range(LAYERS), ["keys", "values"], aligned)
            assert all(same(found[layer, part], getattr(expected, part)[layer]) for layer, part in PLACES)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert reads > 0
    assert [path.name for path in tmp_path.iterdir()] == [f"chunk{SUFFIX}"]


SHARE = """
import sys
from pathlib import Path
from bench.store import DamagedEntry
from bench.store.disk import DiskStore
from tests.store._entries import entry, same
store, me = DiskStore(Path(sys.argv[1]), limit_bytes=int(sys.argv[2])), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
kept = 0
for i in range(60):
    key = f"{me}{i}"
    store.put(key, entry())
    try:
        with store.hold([key]):
            store.put(f"{me}-more", entry())
            assert same(store.part(key, 2, "values"), entry().values[2])
            kept += 1
    except DamagedEntry as error:
        assert "was it deleted" in error.why  # evicted by the other before it was opened
print(kept)
"""


def test_two_processes_share_a_store_with_a_size_limit(tmp_path: Path) -> None:
    limit = 5 * 2 * PAGE
    sharers = [in_process(SHARE, tmp_path, limit, name) for name in "ab"]
    for sharer in sharers:
        assert sharer.stdout is not None
        assert sharer.stdout.readline() == "ready\n"
    for sharer in sharers:
        assert sharer.stdin is not None
        sharer.stdin.write("go\n")
        sharer.stdin.flush()
    outputs = [sharer.communicate(timeout=120)[0] for sharer in sharers]
    assert [sharer.returncode for sharer in sharers] == [0, 0]
    assert all(int(output) > 0 for output in outputs)
    left = list(tmp_path.glob(f"*{SUFFIX}"))
    assert 0 < sum(path.stat().st_size for path in left) <= limit
    assert not list(tmp_path.glob(f"*{TEMPORARY}"))


STOP_WHILE_WRITING = """
import os, sys
from pathlib import Path
from bench.store import files
from bench.store.disk import DiskStore
from tests.store._entries import entry
store = DiskStore(Path(sys.argv[1]))
def stop(descriptor):
    print("written, not synced", flush=True)
    sys.stdin.readline()
files.os.fsync = stop
store.put("a", entry())
"""


def test_killed_while_writing(tmp_path: Path) -> None:
    writer = in_process(STOP_WHILE_WRITING, tmp_path)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written, not synced\n"
    beside = DiskStore(tmp_path)
    assert "a" not in beside
    assert len(list(tmp_path.glob(f"*{TEMPORARY}"))) == 1  # its writer lives: nobody removes it
    writer.kill()
    writer.wait()
    assert len(list(tmp_path.glob(f"*{TEMPORARY}"))) == 1
    after = DiskStore(tmp_path)
    assert "a" not in after
    assert list(tmp_path.iterdir()) == []
    after.put("a", entry())
    assert same(after.part("a", 0, "keys"), entry().keys[0])
