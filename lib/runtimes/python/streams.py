# SPDX-License-Identifier: Apache-2.0
"""sys.stdin, sys.stdout and sys.stderr, whatever the code makes of them."""

import sys
from _io import open as open_stream
from os import write

NAMES = ("stdin", "stdout", "stderr")

originals = {name: getattr(sys, name, None) for name in NAMES}

# The hook at the start counts as Python's own: distributions install one in
# sitecustomize (Ubuntu's apport) that ends in Python's, which prints no source
# lines of cells before 3.13.
plain_hooks = (sys.__excepthook__, sys.excepthook)


def prepare():
    """Send each line on as it is printed, though stdout is a pipe (P04)."""
    for name in ("stdout", "stderr"):
        # There is none if the descriptor is closed, or the user's
        # sitecustomize has put something else in its place.
        reconfigure = getattr(originals[name], "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True)


def restore():
    """Give a cell usable streams again if the one before took them away.

    exit() closes sys.stdin on its way (KRN-14, P07); a stream that was replaced
    by another usable one stays.
    """
    for fd, name in enumerate(NAMES):
        if originals[name] is None or is_usable(getattr(sys, name, None)):
            continue
        if not is_usable(originals[name]):
            try:
                originals[name] = reopen(fd, originals[name])
            except OSError:
                # The code closed the descriptor too: the stream is lost.
                continue
        setattr(sys, name, originals[name])


def is_usable(stream):
    try:
        return stream is not None and not stream.closed
    except Exception:
        # An object without `closed` is a stream of the code's own making.
        return True


def reopen(fd, closed):
    # Python's own streams never close the descriptor below them.
    return open_stream(fd, "r" if fd == 0 else "w", encoding=closed.encoding,
                       errors=closed.errors, closefd=False,
                       buffering=-1 if fd == 0 else 1)


def flush():
    """Empty the buffers before DONE: the engine takes what is in the pipes."""
    for name in ("stdout", "stderr"):
        try:
            flush_stream(originals[name])
        except KeyboardInterrupt:
            pass


def flush_before_result():
    """Empty the buffers, so that what was printed before it comes before it."""
    for name in ("stdout", "stderr"):
        flush_stream(originals[name])


def flush_stream(stream):
    try:
        stream.flush()
    except KeyboardInterrupt:
        raise
    except BaseException:
        # None, closed, or broken by the code.
        pass


def are_replaced():
    return (getattr(sys, "stdout", None) is not originals["stdout"] or
            getattr(sys, "stderr", None) is not originals["stderr"])


def flush_replaced():
    """Empty the buffers of streams of the code's own making, by its code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        if stream is not originals[name]:
            flush_stream(stream)


def flush_all():
    """Empty all buffers, whatever the code makes of that."""
    flush()
    try:
        flush_replaced()
    except KeyboardInterrupt:
        pass


def write_error(text):
    """Write to stderr like the interpreter: by sys.stderr, else by force."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except KeyboardInterrupt:
        raise
    except BaseException:
        write_raw(text.encode("utf-8", "backslashreplace"))


def write_raw(data):
    try:
        while data:
            data = data[write(2, data):]
    except OSError:
        # The code closed descriptor 2: it wants no messages.
        pass
