# SPDX-License-Identifier: Apache-2.0
"""A kernel's interpreter: many cells, interrupts, checkpoints.

Theory of operation. At its start the driver forks, before any code of a cell
has run:

    payload      supervisor.py: starts nothing, runs no cell, sees all deaths
     └ live      this file: runs the cells
        ┆ forks
     └ copies    sleep where checkpoint() was called, until they are woken

The live one and the copies read cells from the same socket and answer on the
same pipe; there is never more than one of them that does. When the live one
dies, the supervisor reads and answers in its place, and wakes a copy when it is
told to. So neither a crash nor SIGKILL of the interpreter ends the box, and a
cell goes straight to the interpreter, without a stop at the supervisor.

A copy is a fork: it has all that is in memory, and no thread but the main one.
It forks its own replacement when it is woken, so that a checkpoint can be gone
back to many times. It is made by two forks, whose middle process ends: the
supervisor adopts it, and the code's os.wait() never meets it.

SIGINT raises KeyboardInterrupt in a cell, as ever. Between cells it does
nothing, but that one that is meant for a cell can come before the cell has
begun: an INTERRUPT frame in the socket then tells. One that was meant for a cell
can be on its way through the supervisor when the cell has ended: "sync" waits
for it.
"""

import streams
import sys
from _signal import (SIG_BLOCK, SIG_SETMASK, SIG_UNBLOCK, SIGINT, SIGUSR1,
                     SIGUSR2, default_int_handler, getsignal, pthread_sigmask,
                     signal, sigwait)
from channel import (CELL, COMMAND, DONE, SIGNALS, tuck_away, to_json,
                     unblock_signals)
from fcntl import ioctl
from os import (_exit, close, fork, fstat, getpid, kill, pipe, read, setpgid,
                waitpid, write)
from termios import FIONREAD

# What a copy is made of was not there: no fork, or nobody to adopt it.
NO_COPY = "CheckpointFailed"
NO_SUCH = "NoCheckpoint"

WOKEN = "woken"

# The exit code of an interpreter whose channel was closed by the code.
CLOSED = 254


def serve(runner, first):
    """Run a kernel's cells to the end; return the last one's exit code."""
    kernel = Kernel(runner)
    is_supervised = kernel.split()
    runner.answer(None, None, supervised=int(is_supervised))
    return kernel.serve()


class Kernel:
    """The live interpreter, and what becomes of it."""

    def __init__(self, runner):
        self.runner = runner
        self.channel = runner.channel
        self.exit_code = 0
        self.request_fd = self.reply_fd = -1
        self.execute_cell = runner.execute
        runner.execute = self.execute
        runner.heed = self.heed
        self.answer_file = identify(self.channel.answer_fd)
        # A SIGINT came while no cell ran: maybe for the one that is to begin.
        self.is_signalled = False
        self.idle_handler = self.channel.idle_handler = self.note_signal
        if getsignal(SIGINT) is default_int_handler:
            signal(SIGINT, self.idle_handler)

    # ---- The start ----------------------------------------------------------

    def split(self):
        """Fork the live one off; the parent stays as the supervisor."""
        requests = [tuck_away(fd) for fd in pipe()]
        replies = [tuck_away(fd) for fd in pipe()]
        signals = pthread_sigmask(SIG_BLOCK, SIGNALS)
        self.channel.is_shared = True
        try:
            pid = fork()
        except OSError:
            # No room for a second process (pids: 1): then without.
            for fd in requests + replies:
                close(fd)
            pid = None
        if pid:
            close(requests[1])
            from supervisor import Supervisor
            Supervisor(self.channel, pid, requests[0], replies).run()
        self.channel.is_shared = False
        if pid == 0:
            close(requests[0])
            close(replies[1])
            self.request_fd, self.reply_fd = requests[1], replies[0]
            self.channel.others = [self.request_fd, self.reply_fd]
            self.supervisor = self.channel.owner
            self.settle()
        pthread_sigmask(SIG_SETMASK, signals)
        return pid == 0

    def settle(self):
        """In a new process that is to be the live one."""
        self.channel.owner = getpid()
        # The code's killpg(0, ...) must not meet the supervisor, and what is
        # sent to us must meet our children, as Ctrl-C in a terminal does.
        setpgid(0, 0)

    # ---- Requests to the supervisor -----------------------------------------

    def ask(self, text):
        """Send a request and return the reply: b"1" for yes, b"0" for no."""
        self.tell(text)
        return read(self.reply_fd, 1) == b"1"

    def tell(self, text):
        self.note(text)
        kill(self.supervisor, SIGUSR1)

    def note(self, text):
        """Write what the supervisor reads when it is told something next."""
        # At most PIPE_BUF bytes, so they go in one piece. The first line end is
        # for what the code may have written there.
        write(self.request_fd, b"\n" + text.encode("ascii") + b"\n")

    # ---- Serving ------------------------------------------------------------

    def serve(self):
        while True:
            frame = self.runner.wait_for_frame()
            if frame is None:
                return self.exit_code
            kind, message = frame
            if kind == CELL:
                self.run(message)
            elif kind == COMMAND:
                self.obey(message)
            # An INTERRUPT was for a cell that has ended.
            self.is_signalled = False

    def run(self, cell):
        try:
            self.exit_code = self.runner.run(cell)
        except KeyboardInterrupt as interrupt:
            # A second one, in the few instructions around a cell.
            if not self.runner.is_answered:
                signals = self.channel.block_signals()
                self.exit_code = self.runner.answer(interrupt, cell.get("name"))
                unblock_signals(signals)
        if self.channel.owner != getpid():
            # A child that the code has forked came back. For it the input is at
            # its end, and it ends with this exit code, as a script's would.
            return
        if identify(self.channel.answer_fd) != self.answer_file:
            # The code closed the pipe or put another file in its place. Nobody
            # will hear of any cell: the sooner that is known the better.
            _exit(CLOSED)
        # Now, while nobody waits for it.
        self.runner.restore()
        self.runner.must_restore = False

    def execute(self, code, name):
        """Run a cell's code so that SIGINT interrupts it."""
        try:
            if getsignal(SIGINT) is self.idle_handler:
                signal(SIGINT, default_int_handler)
                # What came with the cell was read with it.
                is_early = (len(self.channel.input) > 0
                            or self.is_signalled and self.is_interrupted())
            else:
                # The code's own handler does not say so.
                is_early = self.is_interrupted()
            if is_early:
                raise KeyboardInterrupt
            self.execute_cell(code, name)
        finally:
            if getsignal(SIGINT) is default_int_handler:
                signal(SIGINT, self.idle_handler)

    def heed(self, function, *arguments):
        """Call what runs code of the cell's so that SIGINT interrupts it."""
        if getsignal(SIGINT) is not self.idle_handler:
            # The code's own, which must not cut in where signals are blocked.
            return function(*arguments)
        signals = None
        try:
            signal(SIGINT, default_int_handler)
            signals = pthread_sigmask(SIG_UNBLOCK, {SIGINT})
            if self.is_signalled and self.is_interrupted():
                raise KeyboardInterrupt
            return function(*arguments)
        finally:
            if getsignal(SIGINT) is default_int_handler:
                signal(SIGINT, self.idle_handler)
            if signals is not None:
                pthread_sigmask(SIG_SETMASK, signals)

    def note_signal(self, number, frame):
        """What SIGINT does between cells.

        Whether it is meant for the next one is seen when that has been read:
        until then it may be the cell itself that lies in the socket.
        """
        self.is_signalled = True

    def is_interrupted(self):
        """Tell whether an INTERRUPT follows the cell; nothing else can."""
        waiting = ioctl(self.channel.cell_fd, FIONREAD, b"\0" * 4)
        return waiting != b"\0" * 4 or len(self.channel.input) > 0

    def obey(self, command):
        action = command.get("do")
        if action == "sync":
            if self.request_fd >= 0:
                self.ask("sync")
            self.answer()
        elif self.request_fd < 0:
            self.answer(NO_COPY, "the interpreter has no supervisor: there was "
                        "no room for a second process when it started")
        elif action == "checkpoint":
            self.checkpoint(command["id"], command["drop"])
        elif action == "rollback":
            self.tell("rollback %d" % command["id"])
            # Either there is no such copy, or this is the end.
            read(self.reply_fd, 1)
            self.answer(NO_SUCH, "there is no such checkpoint")

    def answer(self, name=None, message=""):
        send_answer(self.channel, name, message)

    # ---- Copies -------------------------------------------------------------

    def checkpoint(self, id, drop):
        if not self.ask("adopt"):
            self.answer(NO_COPY, "this python has no ctypes, or may not use it")
            return
        made = self.copy(id)
        if made is WOKEN:
            # That was another time: this answers the rollback.
            self.answer()
            return
        if not made:
            self.answer(NO_COPY, "no room for another process")
            return
        # Only now: with no room for the new one the old ones stay.
        for old in drop.split():
            self.tell("drop " + old)
        self.answer()

    def copy(self, id):
        """Make a sleeping copy; tell whether there is one.

        Returns once more, WOKEN, in the copy that is woken.
        """
        streams.flush_all()
        signals = pthread_sigmask(SIG_BLOCK, SIGNALS)
        self.channel.is_shared = True
        result = None
        try:
            made = self.fork_copy(id)
            while made is None:
                # It leaves a copy in its own place. Should there be no room for
                # one, the checkpoint is gone.
                result = WOKEN
                made = self.fork_copy(id)
            return result or made
        finally:
            self.channel.is_shared = False
            pthread_sigmask(SIG_SETMASK, signals)

    def fork_copy(self, id):
        """Tell whether there is a copy now; None in the copy, once woken."""
        restore = remember_random()
        middle = try_fork()
        if middle is None:
            return False
        if middle > 0:
            try:
                made = waitpid(middle, 0)[1] == 0
            except ChildProcessError:
                # A thread of the code waits for any child.
                made = True
            # The copy is the supervisor's child only now.
            return made and self.ask("sync")
        copy = try_fork()
        if copy != 0:
            if copy is not None:
                self.note("made %d %d" % (id, copy))
            _exit(copy is None)
        restore()
        # Whatever else is sent to it is not for it to know.
        while sigwait({SIGUSR1, SIGUSR2}) == SIGUSR2:
            self.tell("awake %d" % getpid())
        self.settle()
        if self.runner.awaiting is not None:
            self.runner.awaiting.part_from_parent()
        return None


def identify(fd):
    try:
        found = fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def send_answer(channel, name=None, message=""):
    """The DONE of a command."""
    error = None
    if name is not None:
        error = {"name": name, "message": message, "traceback": "",
                 "line": None}
    channel.send(DONE, to_json({"exitCode": 0 if error is None else 1,
                                "error": error}))


def try_fork():
    try:
        return fork()
    except OSError:
        return None


def remember_random():
    """Return a function that undoes the new seed that a fork gives `random`."""
    random = sys.modules.get("random")
    try:
        state = random.getstate()
    except Exception:
        return lambda: None

    def restore():
        try:
            random.setstate(state)
        except Exception:
            pass
    return restore
