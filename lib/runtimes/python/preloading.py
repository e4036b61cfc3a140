# SPDX-License-Identifier: Apache-2.0
"""Modules that are imported once, for all calls that are forked later.

A zygote imports them outside of all boxes, as a process that can reach nothing
but the root's files: so they are those of the image, and never the workspace's.
What they leave behind is what each call begins with. Where a fork would break
that, importing them is an error that names them: better than calls that go
wrong, or that are slow without a word.
"""

import os
import sys

# Opened by an import, so that every call would have it open by its number.
HIGHEST_FD = 256

# Where the C library's own streams are emptied even if its loop is.
GRACE_S = 5


class PreloadError(Exception):
    """A module that cannot be preloaded; the message says why."""


def preload(names, seconds):
    """Import the modules, or raise an exception with `module`, its name."""
    if not names:
        return
    import faulthandler
    import signal
    before = open_descriptors()
    handler = signal.signal(signal.SIGALRM, stop)
    saved = silence()
    try:
        # The second ends what does not come back to Python.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        faulthandler.dump_traceback_later(seconds + GRACE_S, exit=True, file=2)
        for name in names:
            load(name)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        restore(saved)
    signal.signal(signal.SIGALRM, handler)
    check(names, before)
    settle()


def load(name):
    from imports import original_import
    try:
        original_import(name)
    except BaseException as error:
        error.module = name
        raise


def stop(number, frame):
    raise PreloadError("it takes too long")


def settle():
    """Fork once: libraries stop the threads that a fork could not have."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def describe(error):
    """One line: what was raised, as the last line of a traceback has it."""
    if isinstance(error, PreloadError):
        return str(error)
    try:
        text = "%s: %s" % (type(error).__name__, error)
    except Exception:
        text = type(error).__name__
    return " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")


# ---- What an import may leave -----------------------------------------------


def check(names, before):
    """Refuse what a forked interpreter would not have, or have wrongly."""
    left = sorted(open_descriptors() - before)
    if left:
        refuse(names, "descriptor %d is left open by the import, and would be "
               "another file in a call" % left[0])
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        others = [thread.name for thread in threading.enumerate()
                  if thread is not threading.main_thread()]
        refuse(names, "the import starts a thread (%s), which no call would "
               "have" % others[0])


def refuse(names, why):
    error = PreloadError(why)
    # Which of them it was is not known.
    error.module = ", ".join(names)
    raise error


def open_descriptors():
    return {fd for fd in range(HIGHEST_FD) if is_open(fd)}


def is_open(fd):
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


# ---- What an import says ----------------------------------------------------


def silence():
    """Nobody reads what is printed, and nobody would answer."""
    saved = [os.dup(fd) for fd in (0, 1, 2)]
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    return saved


def restore(saved):
    # What is still in a buffer would be printed by every call.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    import ctypes
    ctypes.pythonapi.fflush(None)
    for fd, copy in enumerate(saved):
        os.dup2(copy, fd)
        os.close(copy)


# ---- In each call ------------------------------------------------------------


def renew():
    """Part the forked interpreter from its siblings.

    Python does so with its own generator, which is reseeded by each fork, but
    not with those that tell a fork by the process id: each box has the same.
    """
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        try:
            numpy_random.seed()
        except Exception:
            pass
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None
    # The password of connections between processes.
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)
    # Folders that were not there yet may be there now.
    for path, finder in list(sys.path_importer_cache.items()):
        if finder is None:
            del sys.path_importer_cache[path]
