"""The kernel's throttle: what is written where, what refusals say; for real where the kernel allows it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from bench.errors import UserError
from bench.store import kernel_throttle as module
from bench.store.kernel_throttle import KernelThrottle, disk_of, kernel_throttle, own_cgroup

MOUNTS = (
    "24 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "30 25 0:26 {root} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
)


class Kernel:
    """A tree of files as the kernel shows them: one cgroup, a disk and the partition that holds the store."""

    def __init__(
        self, folder: Path, root: str = "/", own: str = "/user/me", controllers: str = "cpu io"
    ) -> None:
        self.store = folder / "store"
        self.store.mkdir()
        self.proc, self.sys, point = folder / "proc", folder / "sys", folder / "cgroup mount"
        self.home = point / os.path.relpath(own, root)
        self.home.mkdir(parents=True)
        (self.home / "cgroup.controllers").write_text(f"{controllers}\n")
        (self.home / "cgroup.subtree_control").write_text("")
        (self.proc / "self").mkdir(parents=True)
        escaped = str(point).replace(" ", "\\040")
        (self.proc / "self/mountinfo").write_text(MOUNTS.format(root=root, point=escaped))
        (self.proc / "self/cgroup").write_text(f"5:memory:/elsewhere\n0::{own}\n")
        number = os.stat(self.store).st_dev
        disk = self.sys / "devices/disk"
        (disk / "part").mkdir(parents=True)
        (disk / "dev").write_text("254:0\n")
        (disk / "part/dev").write_text("254:1\n")
        (disk / "part/partition").write_text("1\n")
        (self.sys / "dev/block").mkdir(parents=True)
        self.link = self.sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
        self.link.symlink_to(disk / "part")

    @property
    def child(self) -> Path:
        return self.home / f"qcbench-{os.getpid()}"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)  # the kernel's files go with their folder
    return Kernel(tmp_path)


def test_set_changed_and_lifted(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []
    plain = module._write

    def write(path: Path, text: str) -> None:
        written.append((str(path.relative_to(kernel.home.parent)), text))
        plain(path, text)

    monkeypatch.setattr(module, "_write", write)
    pid = str(os.getpid())
    with kernel_throttle(kernel.store, 1.5e6, kernel.proc, kernel.sys) as throttle:
        assert (kernel.child / "io.max").read_text() == "254:0 rbps=1500000"  # the disk, not the partition
        throttle.limit(2e6)
    assert written == [
        (f"me/qcbench-{pid}/cgroup.procs", pid),
        ("me/cgroup.subtree_control", "+io"),
        (f"me/qcbench-{pid}/io.max", "254:0 rbps=1500000"),
        (f"me/qcbench-{pid}/io.max", "254:0 rbps=2000000"),
        (f"me/qcbench-{pid}/io.max", "254:0 rbps=max"),
        ("me/cgroup.subtree_control", "-io"),
        ("me/cgroup.procs", pid),
    ]
    assert not kernel.child.exists()


def test_a_controller_passed_on_before_stays_so(kernel: Kernel) -> None:
    (kernel.home / "cgroup.subtree_control").write_text("cpu io\n")
    with kernel_throttle(kernel.store, 1e6, kernel.proc, kernel.sys):
        pass
    assert (kernel.home / "cgroup.subtree_control").read_text() == "cpu io\n"


def test_it_is_undone_when_the_run_fails(kernel: Kernel) -> None:
    with (
        pytest.raises(RuntimeError, match="the run"),
        kernel_throttle(kernel.store, 1e6, kernel.proc, kernel.sys),
    ):
        raise RuntimeError("the run")
    assert not kernel.child.exists()
    assert (kernel.home / "cgroup.procs").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    ("file", "code", "message"),
    [
        ("cgroup.procs", errno.EACCES, "may not move this process into a cgroup: Permission denied"),
        ("cgroup.subtree_control", errno.EBUSY, "other processes share this cgroup"),
        ("cgroup.subtree_control", errno.EPERM, "may not pass the io controller on"),
        ("io.max", errno.ENODEV, "cannot set io.max: No such device"),
    ],
)
def test_refusals_are_one_line_and_undone(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, file: str, code: int, message: str
) -> None:
    plain = module._write

    def write(path: Path, text: str) -> None:
        if path.name == file and path.parent == (
            kernel.home if file == "cgroup.subtree_control" else kernel.child
        ):
            raise OSError(code, os.strerror(code))
        plain(path, text)

    monkeypatch.setattr(module, "_write", write)
    if file == "io.max":
        throttle = KernelThrottle(kernel.store, kernel.proc, kernel.sys)
        with pytest.raises(UserError, match=message):
            throttle.limit(1e6)
        with pytest.raises(UserError, match=message):
            throttle.close()
    else:
        with pytest.raises(UserError, match=message):
            KernelThrottle(kernel.store, kernel.proc, kernel.sys)
    assert not kernel.child.exists()


def test_a_mount_of_part_of_the_tree(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, root="/pod", own="/pod/run")
    assert own_cgroup(kernel.proc) == tmp_path / "cgroup mount/run"
    (kernel.proc / "self/cgroup").write_text("0::/other\n")
    with pytest.raises(UserError, match="not visible"):
        own_cgroup(kernel.proc)


def test_no_io_controller(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, controllers="cpu memory")
    with pytest.raises(UserError, match="does not have the io controller"):
        KernelThrottle(kernel.store, kernel.proc, kernel.sys)


def test_no_version_2(kernel: Kernel) -> None:
    (kernel.proc / "self/mountinfo").write_text(MOUNTS.splitlines()[0])
    with pytest.raises(UserError, match="needs cgroup version 2, which is not mounted"):
        own_cgroup(kernel.proc)


def test_no_disk(kernel: Kernel) -> None:
    kernel.link.unlink()
    with pytest.raises(UserError, match="without a disk of its own"):
        disk_of(kernel.store, kernel.sys)


def test_a_rate_that_cannot_be(kernel: Kernel) -> None:
    with kernel_throttle(kernel.store, 1e6, kernel.proc, kernel.sys) as throttle:
        for rate in (0, -1, 0.5):
            with pytest.raises(ValueError, match="at least one byte"):
                throttle.limit(rate)


def test_for_real(tmp_path: Path) -> None:
    try:
        throttle = KernelThrottle(tmp_path)
    except UserError as error:
        pytest.skip(str(error))
    try:
        throttle.limit(12_345_678)
        assert f"{throttle.disk} rbps=12345678" in (throttle.cgroup / "io.max").read_text()
        assert str(os.getpid()) in (throttle.cgroup / "cgroup.procs").read_text().split()
    finally:
        throttle.close()
    assert not throttle.cgroup.exists()
    assert str(os.getpid()) in (throttle.home / "cgroup.procs").read_text().split()
