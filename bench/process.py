"""qcbench as a process: its encoding, the signals that stop it, an output that takes nothing more."""

from __future__ import annotations

import codecs
import contextlib
import errno
import locale
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

from bench.errors import UserError

_RESTARTED = "QCBENCH_RESTARTED"


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end; whatever handles Ctrl-C handles this."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def in_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding; once.

    Libraries open their text files in the locale's encoding (wonderwords its word lists), and users' methods
    and datasets may. The terminal keeps its own encoding; signs that it lacks are shown as "?".
    """
    encoding = codecs.lookup(locale.getpreferredencoding(False)).name
    if sys.flags.utf8_mode or encoding == "utf-8" or os.environ.get(_RESTARTED):
        return
    terminal = sys.stdout.encoding if sys.stdout is not None else encoding
    kept = {"PYTHONIOENCODING": f"{terminal}:replace", **os.environ}
    os.execve(sys.executable, sys.orig_argv, kept | {"PYTHONUTF8": "1", _RESTARTED: "1"})


def stop_at_signals() -> None:
    """Have SIGTERM and SIGHUP raise `Stopped`, where they would kill (under nohup SIGHUP does not)."""

    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)  # one is enough: what closes files shall not be stopped
        raise Stopped(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stop)


class _Guarded:
    """A text stream whose writes fail with a `UserError`, but for a pipe that nobody reads."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As a stream's."""
        return int(self._guarded(self._stream.write, text))

    def flush(self) -> None:
        """As a stream's."""
        self._guarded(self._stream.flush)

    def _guarded(self, do: Any, *values: Any) -> Any:
        try:
            return do(*values)
        except BrokenPipeError:
            raise
        except OSError as error:
            drop_output()
            reason = os.strerror(error.errno or errno.EIO)
            raise UserError(f"the output cannot be written ({reason}); write it somewhere else") from error


def guard_output() -> None:
    """Turn a failed write to standard output into a `UserError`."""
    if sys.stdout is not None:
        sys.stdout = _Guarded(sys.stdout)


def drop_output() -> None:
    """Send what is still in standard output's buffer nowhere: Python would fail on it again at its end."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
