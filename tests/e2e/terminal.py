"""A command in a real pseudo-terminal, its screen kept by pyte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path

import pyte

KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "space": " ",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "backspace": "\x7f",
    "tab": "\t",
}


class Terminal:
    """Runs ``command`` in a pty of ``columns`` × ``lines``."""

    def __init__(
        self, command: list[str], columns: int = 80, lines: int = 24, env: dict[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:  # fmt: skip
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        """All that the command has written so far."""
        self.code: int | None = None
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            if folder is not None:
                os.chdir(folder)
            here = {k: v for k, v in os.environ.items() if k not in ("COLORTERM", "NO_COLOR", "HEADSURGEON_CONFIG")}
            own = {"TERM": "xterm-256color", "ESCDELAY": "25", "XDG_CONFIG_HOME": "/nonexistent"}
            environment = {**here, **own, **(env or {})}
            os.execvpe(command[0], command, environment)
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """Another size, as when a window is dragged."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def read(self, seconds: float) -> int:
        """Take in what comes within ``seconds``; returns how many bytes it was."""
        before, end = len(self.raw), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the command has left
                break
            if not data:
                break
            self.raw += data
            # pyte does not know the private forms of these two and would print their rest
            for private in (b"\x1b[>25u", b"\x1b[<u"):
                data = data.replace(private, b"")
            self.stream.feed(data)
        return len(self.raw) - before

    def send(self, *keys: str, pause: float = 0.05) -> None:
        """Press keys: names of ``KEYS``, or text as it is."""
        for key in keys:
            os.write(self.master, KEYS.get(key, key).encode())
            self.read(pause)

    @property
    def text(self) -> str:
        return "\n".join(self.screen.display)

    def wait_for(self, text: str, timeout: float = 60.0) -> str:
        """Read until the screen shows ``text``; returns the screen."""
        end = time.monotonic() + timeout
        while text not in self.text:
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} did not come within {timeout} s; the screen shows:\n{self.text}")
            self.read(0.1)
        return self.text

    def wait_until_left(self, timeout: float = 60.0) -> int:
        """Wait for the command to leave; returns its exit code (negative: the signal that ended it)."""
        end = time.monotonic() + timeout
        while self.code is None:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                raise AssertionError(f"the command did not leave within {timeout} s; the screen shows:\n{self.text}")
        return self.code

    def hang_up(self) -> None:
        """Drop the line, as a lost SSH connection does: the kernel sends SIGHUP."""
        os.close(self.master)

    def close(self) -> None:
        """End the command if it is still there."""
        with contextlib.suppress(OSError):
            self.hang_up()
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
