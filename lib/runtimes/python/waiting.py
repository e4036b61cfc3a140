# SPDX-License-Identifier: Apache-2.0
"""An interpreter that was started before there was a call.

join.so does what concerns the kernel (src/join/take.h, src/join/zygote.h):
entering the box, and taking the call, with its limits, its descriptors 0 to 4
and its working folder. What is left to do here is the environment, and forking,
of which the interpreter has to know.
"""

import os
import sys
from _signal import pause

# Of the command that is not that of a cold call.
OWN_WORDS = len(sys.argv) - 1


def forget(known):
    """Have the code find none of the modules that only the driver needs.

    It may have a struct.py of its own. Those that are no files stay: nobody can
    have others.
    """
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            del sys.modules[name]


known = set(sys.modules)

import ctypes
import cells
import ending
import preloading

forget(known)

# What most cells need, so that no cell waits for it.
LOADED_BEFORE = ("failures", "results", "sources")

# For all modules that are preloaded. Nothing else can end an import that hangs.
PRELOAD_S = 60


def standby(path):
    """In a ready box: wait for the call and become its payload."""
    take(load(path), lambda: os._exit(127))


def zygote(path, *modules):
    """Outside: fork a payload into each box; only these return."""
    if modules:
        # Before there is a __main__ whose folder is the workspace.
        preload(path, modules)
    library = load(path)
    interpreter = ctypes.pythonapi
    # With its lock held: no thread of it may run.
    serve = ctypes.PyDLL(path).gbx_zygote_serve
    serve.argtypes, serve.restype = (ctypes.c_void_p,), ctypes.c_long
    # What os.fork() does, but that the fork itself is behind serve().
    fork = ctypes.cast(interpreter.fork, ctypes.c_void_p)
    after_fork = interpreter.PyOS_AfterFork_Child
    interpreter.PyOS_BeforeFork()
    became = serve(fork)
    if became < 0:
        os._exit(127)
    after_fork()
    if modules:
        preloading.renew()
    take(library, await_end_of_box)


def await_end_of_box():
    """init says why there is no call, and ends the box with us.

    By our own end the launcher would learn of it first, and not why.
    """
    while True:
        pause()


def preload(path, modules):
    try:
        preloading.preload(modules, PRELOAD_S)
    except BaseException as error:
        name = getattr(error, "module", "")
        fail = ctypes.CDLL(path).gbx_zygote_fail
        fail(name.encode(), preloading.describe(error).encode())
        os._exit(1)


def load(path):
    known = set(sys.modules)
    for name in LOADED_BEFORE:
        __import__(name)
    ending.prepare()
    cells.prepare()
    forget(known)
    ending.remember()
    library = ctypes.CDLL(path)
    library.gbx_take.restype = ctypes.c_long
    return library


def take(library, give_up):
    class Take(ctypes.Structure):
        _fields_ = [("blob", ctypes.c_uint64), ("size", ctypes.c_uint64)]

    taken = Take()
    if library.gbx_take(ctypes.byref(taken)) < 0:
        give_up()
    if taken.size == 0:
        os._exit(127)
    take_environment(ctypes.string_at(taken.blob, taken.size))
    if hasattr(sys, "orig_argv"):
        del sys.orig_argv[-OWN_WORDS:]


def take_environment(blob):
    """Replace the environment by the one in an exec blob (src/common/wire.h)."""
    argument_count = int.from_bytes(blob[4:8], sys.byteorder)
    # The folder, the arguments, the variables, and nothing behind the last NUL.
    variables = blob[12:].split(b"\0")[1 + argument_count:-1]
    wanted = dict(variable.partition(b"=")[::2] for variable in variables)
    for name in set(os.environb) - set(wanted):
        del os.environb[name]
    # Most are what the interpreter was started with.
    for name, value in wanted.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
