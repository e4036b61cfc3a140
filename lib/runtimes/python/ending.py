# SPDX-License-Identifier: Apache-2.0
"""The end of an interpreter that was started before its call.

Python's own end takes all modules apart, one by one, with the interpreter they
live in. That is most of what such a call would take, and all of it is memory
that the kernel takes back anyway. So here is done what code can see of it:
threads are waited for, exit handlers run, buffers are emptied, the code's
objects are finalized, and then the C library's exit() does the same for C.
"""

import atexit
import gc
import sys
from os import _exit

before = frozenset()


def prepare():
    """Remember what is not the code's."""
    global before, leave
    before = frozenset(sys.modules)
    import ctypes
    # With the lock of the interpreter held, so that no thread goes on.
    leave = ctypes.pythonapi.exit
    # What is there now is garbage to nobody, and need not be looked through.
    gc.collect()
    gc.freeze()


def end(exit_code):
    """Never returns."""
    try:
        exit_code = wind_up(exit_code)
        leave(exit_code)
    finally:
        _exit(exit_code)


def wind_up(exit_code):
    threading = sys.modules.get("threading")
    if threading is not None:
        ignore_failure(getattr(threading, "_shutdown", None))
    ignore_failure(atexit._run_exitfuncs)
    if not flush():
        exit_code = 120
    ignore_failure(finalize)
    if not flush():
        exit_code = 120
    return exit_code


def finalize():
    """Let go of the code's modules, the main one first."""
    main = sys.modules.pop("__main__", None)
    for name in set(sys.modules) - before:
        del sys.modules[name]
    if main is not None:
        vars(main).clear()
    gc.collect()


def flush():
    done = True
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            # Python's exit code says so of stdout only.
            done = done and name != "stdout"
            tell(error, stream)
    return done


def ignore_failure(function):
    if function is None:
        return
    try:
        function()
    except BaseException as error:
        tell(error, function)


class Unraisable:
    def __init__(self, error, origin):
        self.exc_type, self.exc_value = type(error), error
        self.exc_traceback, self.err_msg = error.__traceback__, None
        self.object = origin


def tell(error, origin):
    try:
        sys.unraisablehook(Unraisable(error, origin))
    except BaseException:
        # There is no stderr any more.
        pass
