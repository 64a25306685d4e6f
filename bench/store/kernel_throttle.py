"""The kernel's own throttle: a cgroup (version 2) whose reads of the store's disk are limited (`io.max`).

It slows this process's every read of that disk, whoever asks for it, and needs the rights to make cgroups.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from bench.errors import UserError

_HINT = (
    "start the run in a cgroup of its own (systemd-run --user --scope -p Delegate=yes qcbench ...), "
    "as root if need be, or use the throttle without the kernel"
)


class KernelThrottle:
    """A child cgroup for this process, with a limit on the bytes a second it reads from one disk.

    `limit` may be called again at any time; `close` lifts the limit, moves the process back and removes the
    cgroup. Raises `UserError` where version 2 of cgroups, its io controller or the rights are missing.
    proc and sys: where the kernel's file systems are.
    """

    def __init__(self, folder: Path, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> None:
        self.disk = disk_of(folder, sys)
        self.home = own_cgroup(proc)
        self.cgroup = self.home / f"qcbench-{os.getpid()}"
        self._passed_on = False
        with _explained("make a cgroup"):
            self.cgroup.mkdir(exist_ok=True)
        try:
            with _explained("move this process into a cgroup"):
                _write(self.cgroup / "cgroup.procs", str(os.getpid()))
            with _explained("pass the io controller on"):
                self._passed_on = _pass_on(self.home)
        except BaseException:
            self._leave()
            raise

    def limit(self, bytes_per_s: float | None) -> None:
        """Set the rate of reading in bytes a second; None lifts it."""
        if bytes_per_s is not None and bytes_per_s < 1:
            raise ValueError(f"a rate of at least one byte a second, not {bytes_per_s}")
        rate = "max" if bytes_per_s is None else str(int(bytes_per_s))
        with _explained("set io.max"):
            _write(self.cgroup / "io.max", f"{self.disk} rbps={rate}")

    def close(self) -> None:
        """Lift the limit, move the process back, remove the cgroup."""
        try:
            self.limit(None)
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._passed_on:  # a cgroup that passes controllers on takes no processes
            _write(self.home / "cgroup.subtree_control", "-io")
        _write(self.home / "cgroup.procs", str(os.getpid()))
        self.cgroup.rmdir()


@contextlib.contextmanager
def kernel_throttle(
    folder: Path, bytes_per_s: float, proc: Path = Path("/proc"), sys: Path = Path("/sys")
) -> Iterator[KernelThrottle]:
    """Limit this process's reads of the disk that holds `folder`, until the end of the block."""
    throttle = KernelThrottle(folder, proc, sys)
    try:
        throttle.limit(bytes_per_s)
        yield throttle
    finally:
        throttle.close()


def own_cgroup(proc: Path = Path("/proc")) -> Path:
    """The folder of this process's cgroup, which must have the io controller. Raises `UserError`."""
    mounted = _mount_of_cgroup2((proc / "self/mountinfo").read_text(encoding="utf-8"))
    paths = [
        line[3:]
        for line in (proc / "self/cgroup").read_text(encoding="utf-8").splitlines()
        if line.startswith("0::")
    ]
    if mounted is None or not paths:
        raise UserError(f"the kernel's throttle needs cgroup version 2, which is not mounted; {_HINT}")
    root, point = mounted
    relative = os.path.relpath(paths[0], root)
    if relative.startswith(".."):  # another namespace's cgroup: not visible here
        raise UserError(f"this process's cgroup {paths[0]} is not visible under {point}; {_HINT}")
    folder = point / relative
    if "io" not in (folder / "cgroup.controllers").read_text(encoding="utf-8").split():
        raise UserError(f"the cgroup {folder} does not have the io controller; {_HINT}")
    return folder


def disk_of(folder: Path, sys: Path = Path("/sys")) -> str:
    """The disk that holds a folder as "major:minor", never a partition of it. Raises `UserError`."""
    number = os.stat(folder).st_dev
    device = sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
    if not device.exists():
        raise UserError(
            f"{folder} is on a file system without a disk of its own; put the store on one with a disk, "
            "or use the throttle without the kernel"
        )
    whole = device.resolve()
    if (whole / "partition").exists():
        whole = whole.parent
    return (whole / "dev").read_text(encoding="utf-8").strip()


def _pass_on(cgroup: Path) -> bool:
    """Give a cgroup's children the io controller; False where they have it already."""
    control = cgroup / "cgroup.subtree_control"
    if "io" in control.read_text(encoding="utf-8").split():
        return False
    _write(control, "+io")
    return True


def _mount_of_cgroup2(mountinfo: str) -> tuple[str, Path] | None:
    """(root within the hierarchy, mount point) of the first cgroup2 mount."""
    for line in mountinfo.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.split()[:1] == ["cgroup2"]:
            root, point = fields.split()[3:5]
            return root, Path(point.replace("\\040", " "))
    return None


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn the kernel's refusals into one line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(f"the kernel's throttle may not {what}: {error.strerror}; {_HINT}") from error
        if error.errno == errno.EBUSY:
            raise UserError(f"cannot {what}: other processes share this cgroup; {_HINT}") from error
        if error.errno in (errno.ENOENT, errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP):
            raise UserError(f"the kernel cannot {what}: {error.strerror}; {_HINT}") from error
        raise
