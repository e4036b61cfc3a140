# SPDX-License-Identifier: Apache-2.0
"""Cells and answers: frames with a JSON body (docs/protocol.md)."""

from _json import encode_basestring_ascii, make_scanner
from _signal import (SIG_BLOCK, SIG_SETMASK, SIGINT, getsignal,
                     pthread_sigmask, valid_signals)
from _thread import allocate_lock
from errno import EBADF, ECONNRESET, EINVAL, EISDIR
from fcntl import F_DUPFD_CLOEXEC, fcntl
from os import close, getpid, read, register_at_fork, set_inheritable, write

CELL, RESULT, DONE, COMMAND, INTERRUPT = 1, 2, 3, 4, 5
HEADER_BYTES = 8
# What takes no mapping of its own for each read.
READ_BYTES = 1 << 15
# Of a frame that waits for the next one. Less than a pipe takes at once.
HELD_BYTES = 1 << 11

# How a read fails when the code has closed or replaced the descriptor.
GONE = (EBADF, ECONNRESET, EINVAL, EISDIR)

# Out of the way of code that opens, counts or closes low descriptors.
LOWEST_FD = 200


# All that can be blocked.
SIGNALS = frozenset(valid_signals())
# How they are handled in an interpreter in which no code has run. SIGINT, which
# the driver itself handles, apart.
OTHERS = tuple(SIGNALS - {SIGINT})
UNTOUCHED = list(map(getsignal, OTHERS))


class ScannerSettings:
    """What json.JSONDecoder() would hand to its C scanner.

    The json package is not imported for it: it brings re and enum along, which
    take longer than the rest of the driver's start.
    """

    strict = True
    memo = {}
    object_hook = object_pairs_hook = array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


scan = make_scanner(ScannerSettings())


def parse_json(text):
    return scan(text, 0)[0]


def to_json(value):
    """JSON of None, an int, a str, or a dict of these."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    return "{" + ",".join(encode_basestring_ascii(key) + ":" + to_json(item)
                          for key, item in value.items()) + "}"


class Channel:
    """The driver's end."""

    def __init__(self):
        self.cell_fd = self.answer_fd = -1
        self.owner = None
        # What a forked child must not have either.
        self.others = []
        # While the driver itself forks: its children go on with the channel.
        self.is_shared = False
        self.input = bytearray()
        # A whole frame that goes together with the next.
        self.held = b""
        self.lock = allocate_lock()
        # The handler of SIGINT that raises nothing, if there is one.
        self.idle_handler = None
        # A forked child must not hold the pipe open, let alone answer on it:
        # the engine would never see the end, or see two replies (KRN-10).
        register_at_fork(after_in_child=self.abandon)

    def open(self, cell_fd, answer_fd):
        """Take the descriptors over."""
        self.cell_fd = tuck_away(cell_fd)
        self.answer_fd = tuck_away(answer_fd)
        self.owner = getpid()

    def is_open(self):
        # The process is compared too: a fork by ctypes runs no fork handlers.
        return self.answer_fd >= 0 and getpid() == self.owner

    def abandon(self):
        if self.is_shared:
            return
        descriptors = [self.cell_fd, self.answer_fd] + self.others
        self.cell_fd = self.answer_fd = -1
        self.others = []
        self.held = b""
        # In a child, another thread of the parent may seem to hold it.
        self.lock = allocate_lock()
        for fd in descriptors:
            if fd < 0:
                continue
            try:
                close(fd)
            except OSError:
                # The code closed it (os.closerange); it is gone either way.
                pass

    def receive(self):
        """Wait for the next frame: (kind, dict); None at the end of the input.

        The dict is empty where the frame has no body.
        """
        if not self.fill(HEADER_BYTES):
            return None
        end = HEADER_BYTES + int.from_bytes(self.input[:4], "little")
        if not self.fill(end):
            return None
        kind = int.from_bytes(self.input[4:HEADER_BYTES], "little")
        body = str(self.input[HEADER_BYTES:end], "utf-8", "replace")
        del self.input[:end]
        return kind, parse_json(body) if body else {}

    def fill(self, size):
        """Read until size bytes are there; tell whether they are.

        What has arrived is kept in self.input: a signal handler of the code
        may raise while the driver waits here between two cells.
        """
        while len(self.input) < size:
            if not self.is_open():
                return False
            try:
                data = read(self.cell_fd, READ_BYTES)
            except OSError as error:
                # A handler may well raise an OSError too: a TimeoutError.
                if error.errno not in GONE:
                    raise
                data = b""
            if not data:
                return False
            self.input += data
        return True

    def send(self, kind, body):
        """Send one frame; quietly nothing when the pipe is gone."""
        # A signal handler that raises in the middle would leave half a frame.
        signals = self.block_signals()
        try:
            self.send_blocked(kind, body)
        finally:
            unblock_signals(signals)

    def send_blocked(self, kind, body):
        """Send where no signal handler of the code can cut in."""
        frame = make_frame(kind, body)
        # display() may be called by several threads.
        with self.lock:
            frame, self.held = self.held + frame, b""
            self.write_all(frame)

    def hold(self, kind, body):
        """Send a frame together with the next: that wakes the engine once."""
        if len(body) > HELD_BYTES:
            self.send(kind, body)
            return
        frame = make_frame(kind, body)
        with self.lock:
            is_first = not self.held
            if is_first:
                self.held = frame
        if not is_first:
            self.send(kind, body)

    def block_signals(self):
        """Keep the code's signal handlers from cutting in.

        Returns what unblock_signals() takes. Mostly the code has none, and to
        look is a quarter of the work that blocking is.
        """
        if (getsignal(SIGINT) is self.idle_handler is not None
                and list(map(getsignal, OTHERS)) == UNTOUCHED):
            return None
        # The handlers of what has just come are called by this call, and what
        # they raise it raises: then they would stay blocked.
        before = pthread_sigmask(SIG_BLOCK, ())
        try:
            pthread_sigmask(SIG_BLOCK, SIGNALS)
        except BaseException:
            pthread_sigmask(SIG_SETMASK, before)
            raise
        return before

    def write_all(self, data):
        while data and self.is_open():
            try:
                count = write(self.answer_fd, data)
                if count == len(data):
                    return
                data = memoryview(data)[count:]
            except OSError:
                # Nobody listens. The code goes on; its exit code still counts.
                self.abandon()


def make_frame(kind, body):
    data = body.encode("ascii")
    return (len(data).to_bytes(4, "little") + kind.to_bytes(4, "little")
            + data)


def unblock_signals(signals):
    if signals is not None:
        pthread_sigmask(SIG_SETMASK, signals)


def tuck_away(fd):
    """Move a descriptor up and make it close on exec."""
    try:
        high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD)
    except OSError:
        # A low RLIMIT_NOFILE leaves no room there (or there is no socket at
        # all, which the next line reports).
        set_inheritable(fd, False)
        return fd
    close(fd)
    return high
