# SPDX-License-Identifier: Apache-2.0
"""Finding out what memory a call writes to (src/join/scout.h).

A child of the zygote's goes through a call that nobody has made, from the fork
to the end, and tells which pages are its own by then.
"""

import ctypes
import os
from _signal import ITIMER_REAL, SIG_DFL, SIGALRM, SIGKILL, setitimer, signal
from atexit import _clear as forget_exit_handlers

import cells
import ending
from channel import CELL, make_frame, to_json

# Of a call that prints and has a result.
CODE = "print(0)\n0"

# Modules that were preloaded may have a say in a fork, and hang.
SCOUT_S = 5

SPAN_BYTES = 16

PR_SET_PDEATHSIG = 1


def learn(library, arrive):
    """The spans, as join.so wants them; none where anything goes wrong.

    `arrive` does what a call does before its cell.
    """
    spans_fd, fd = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scout(ctypes.PyDLL(library), fd, arrive)
        finally:
            os._exit(1)
    os.close(fd)
    with open(spans_fd, "rb") as file:
        spans = file.read()
    _, status = os.waitpid(child, 0)
    return spans if status == 0 else b""


def scout(library, fd, arrive):
    ctypes.pythonapi.prctl(PR_SET_PDEATHSIG, SIGKILL)
    signal(SIGALRM, SIG_DFL)
    setitimer(ITIMER_REAL, SCOUT_S)
    # What they do they would do to the zygote's files.
    forget_exit_handlers()
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    ending.leave = lambda code: os._exit(
        -library.gbx_scout_tell(fd, page_bytes))
    arrive()
    play()


def play():
    """A call from its cell on. Never returns."""
    cell_fd, engine_fd = os.pipe()
    os.write(engine_fd, make_frame(CELL, to_json({"code": CODE})))
    os.close(engine_fd)
    # Room for what it says, which nobody reads.
    nobody_fd, answer_fd = os.pipe()
    os.dup2(answer_fd, 1)
    os.dup2(answer_fd, 2)
    cells.serve(cell_fd, answer_fd, ending.end)
