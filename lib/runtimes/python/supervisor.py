# SPDX-License-Identifier: Apache-2.0
"""The first process of a kernel: what stays when the interpreter dies.

It has forked the interpreter before any code came, and imports nothing that
lies in the workspace. It waits for signals, which are all blocked otherwise:

    SIGINT   from the engine: passed on to the interpreter and its children
    SIGTERM  from the engine: the interpreter did not heed that, it is killed
    SIGUSR1  from the interpreter: there is a request in the pipe
    SIGCHLD  something has died: the interpreter, a copy, an orphan of the code

sigwait() takes the lowest number first, so a request is looked at when all
SIGINTs that came before it have been passed on.

While an interpreter lives, that one reads the frames of the engine. When it has
died this does, and answers each in its place until it is told to roll back.
"""

from _signal import (SIGCHLD, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2,
                     sigwait)
from channel import COMMAND, DONE, INTERRUPT, to_json
from fcntl import ioctl
from kernel import CLOSED, NO_SUCH, send_answer
from os import (WEXITSTATUS, WIFEXITED, WNOHANG, WTERMSIG, _exit, kill, killpg,
                read, waitpid, write)
from termios import FIONREAD

# What ends a frame that the interpreter has left half written, and is in no
# frame itself: docs/protocol.md.
RESET = b"\xff" * 16 + b"\0"

PR_SET_CHILD_SUBREAPER = 36


class Supervisor:

    def __init__(self, channel, live, request_fd, replies):
        self.channel = channel
        self.live = live
        self.request_fd = request_fd
        self.replies_fd, self.reply_fd = replies
        self.requests = b""
        self.copies = {}
        self.adopts = None
        # `{"exitCode", "signal"}` of the interpreter that has died.
        self.lost = None

    def run(self):
        try:
            while self.lost is None or self.serve_frame():
                if self.lost is None:
                    self.watch()
        finally:
            # Never up into the driver, which would run cells.
            _exit(1)

    # ---- While an interpreter lives -----------------------------------------

    def watch(self):
        number = sigwait({SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
        if number == SIGINT:
            # Its process group, as a terminal does; it may have left that.
            if not try_call(killpg, self.live, SIGINT):
                try_call(kill, self.live, SIGINT)
        elif number == SIGTERM:
            try_call(kill, self.live, SIGKILL)
        elif number == SIGUSR1:
            self.read_requests()
        else:
            self.reap()

    def take_requests(self):
        count = waiting(self.request_fd)
        if count > 0:
            self.requests += read(self.request_fd, count)

    def read_requests(self):
        self.take_requests()
        # The code may have written there too: so much is no request of ours.
        while b"\n" in self.requests and self.lost is None:
            line, self.requests = self.requests.split(b"\n", 1)
            try:
                self.obey(*line.decode("ascii").split())
            except (TypeError, ValueError):
                continue
        self.requests = self.requests[:1000]

    def obey(self, action, *numbers):
        id, pid = ([int(number) for number in numbers] + [0, 0])[:2]
        if action == "sync":
            write(self.reply_fd, b"1")
        elif action == "adopt":
            write(self.reply_fd, b"1" if self.adopt() else b"0")
        elif action == "made":
            self.drop(id)
            if is_child(pid):
                self.copies[id] = pid
        elif action == "drop":
            self.drop(id)
        elif action == "rollback" and self.live > 0:
            if not self.is_awake(id):
                write(self.reply_fd, b"0")
                # What has died meanwhile is told of once.
                self.reap()
                return
            try_call(kill, self.live, SIGKILL)
            try_call(waitpid, self.live, 0)
            self.wake(id)

    def adopt(self):
        """Have the copies, whose parents end, become children of ours."""
        if self.adopts is None:
            try:
                from ctypes import CDLL
                self.adopts = CDLL(None).prctl(
                    PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
            except Exception:
                self.adopts = False
        return self.adopts

    def drop(self, id):
        pid = self.copies.pop(id, 0)
        if is_child(pid):
            kill(pid, SIGKILL)

    def is_awake(self, id):
        """Have a copy say that it lives: one may have been killed, and not be
        gone yet. What it is woken for is to come.
        """
        pid = self.copies.get(id, 0)
        if not is_child(pid):
            return False
        kill(pid, SIGUSR2)
        answer = b"\nawake %d\n" % pid
        while answer not in self.requests:
            # The interpreter waits, so nobody else asks for anything. SIGTERM:
            # the engine will wait no longer, for a copy that was stopped.
            if sigwait({SIGTERM, SIGUSR1, SIGCHLD}) == SIGTERM:
                return False
            self.take_requests()
            if not is_child(pid):
                return False
        return True

    def wake(self, id):
        # It makes its own replacement, and says so.
        self.live = self.copies.pop(id)
        self.lost = None
        kill(self.live, SIGUSR1)

    def reap(self):
        while True:
            try:
                pid, status = waitpid(-1, WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.live:
                self.lose(status)
                return
            for id, copy in list(self.copies.items()):
                if copy == pid:
                    del self.copies[id]

    # ---- While none lives ----------------------------------------------------

    def lose(self, status):
        """The interpreter has died: answer in its place, from now on."""
        # Requests that it has made come first: of its last copy, say. It does
        # not hear the replies, and the next one must not.
        self.live = 0
        self.read_requests()
        drain(self.replies_fd)
        exited = WIFEXITED(status)
        self.lost = {"exitCode": WEXITSTATUS(status) if exited else None,
                     "signal": None if exited else WTERMSIG(status)}
        if self.lost["exitCode"] == CLOSED:
            self.lost["closed"] = 1
        # What it did not read of its cell is for nobody.
        drain(self.channel.cell_fd)
        self.channel.write_all(RESET)
        self.say_lost()

    def say_lost(self):
        self.channel.send(DONE, to_json(
            {"exitCode": 1, "error": None, "lost": self.lost}))

    def serve_frame(self):
        """Answer one frame; False at the end of the input."""
        frame = self.channel.receive()
        if frame is None:
            return False
        kind, message = frame
        if kind == COMMAND and message.get("do") == "rollback":
            id = message["id"]
            if is_child(self.copies.get(id, 0)):
                self.wake(id)
            else:
                send_answer(self.channel, NO_SUCH,
                            "there is no such checkpoint")
        elif kind != INTERRUPT:
            self.say_lost()
        return True


def waiting(fd):
    return int.from_bytes(ioctl(fd, FIONREAD, b"\0" * 4), "little")


def drain(fd):
    while waiting(fd) > 0:
        read(fd, waiting(fd))


def is_child(pid):
    """Tell whether a process lives and is ours to kill; reaps a dead one.

    A number alone says nothing: it may be of another process by now.
    """
    if pid <= 0:
        return False
    try:
        return waitpid(pid, WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def try_call(function, *arguments):
    try:
        function(*arguments)
    except OSError:
        return False
    return True
