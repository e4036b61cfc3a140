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
import scouting

forget(known)

# What most cells need, so that no cell waits for it.
LOADED_BEFORE = ("failures", "results", "sources")

# For all modules that are preloaded. Nothing else can end an import that hangs.
PRELOAD_S = 60


def standby(path):
    """In a ready box: wait for the call and become its payload."""
    take(lambda: os._exit(127), *load(path))


def zygote(path, *modules):
    """Outside: fork a payload into each box; only these return."""
    if modules:
        # Before there is a __main__ whose folder is the workspace.
        preload(path, modules)
    ahead = load(path)
    spans = scouting.learn(path, lambda: arrive(modules, *ahead))
    interpreter = ctypes.pythonapi
    # With its lock held: no thread of it may run.
    serve = ctypes.PyDLL(path).gbx_zygote_serve
    serve.argtypes = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
    serve.restype = ctypes.c_long
    # What os.fork() does, but that the fork itself is behind serve().
    fork = ctypes.cast(interpreter.fork, ctypes.c_void_p)
    after_fork = interpreter.PyOS_AfterFork_Child
    interpreter.PyOS_BeforeFork()
    became = serve(fork, spans, len(spans) // scouting.SPAN_BYTES)
    if became < 0:
        os._exit(127)
    after_fork()
    renew(modules)
    take(await_end_of_box, *ahead)


def renew(modules):
    if modules:
        preloading.renew()


def arrive(modules, function, reference, taken, started):
    """What a payload does before its cell, but for what join.so does."""
    renew(modules)
    blob = b"".join([bytes(12), b"\0", *(word + b"\0" for word in started)])
    take_environment(blob, started)


def await_end_of_box():
    """init says why there is no call, or was killed: the box ends with it, and
    we with the box.

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


class Take(ctypes.Structure):
    _fields_ = [("blob", ctypes.c_uint64), ("size", ctypes.c_uint64)]


def load(path):
    """Do what can be done before there is a call; return what take() needs.

    Each page that is written to after a fork is copied, and each that is read
    is mapped anew. So not even a class is left to be made there.
    """
    known = set(sys.modules)
    for name in LOADED_BEFORE:
        __import__(name)
    ending.prepare()
    cells.prepare()
    forget(known)
    function = ctypes.CDLL(path).gbx_take
    function.restype = ctypes.c_long
    taken = Take()
    started = [name + b"=" + value for name, value in os.environb.items()]
    ending.remember()
    # What the code makes is garbage one day, and hangs on its main module.
    cells.renew_main()
    return function, ctypes.byref(taken), taken, started


def take(give_up, function, reference, taken, started):
    # No call: what to enter failed, or init is gone.
    if function(reference) < 0 or taken.size == 0:
        give_up()
    blob = ctypes.string_at(taken.blob, taken.size)
    take_environment(blob, started)
    if hasattr(sys, "orig_argv"):
        del sys.orig_argv[-OWN_WORDS:]


def take_environment(blob, started):
    """Replace the environment by the one in an exec blob (src/common/wire.h).

    Most of it is what the interpreter was started with.
    """
    argument_count = int.from_bytes(blob[4:8], sys.byteorder)
    # The folder, the arguments, the variables, and nothing behind the last NUL.
    wanted = blob[12:].split(b"\0")[1 + argument_count:-1]
    if wanted == started:
        return
    gone = [name_of(variable) for variable in started if variable not in wanted]
    for variable in wanted:
        name = name_of(variable)
        if name in gone:
            gone.remove(name)
        if variable not in started:
            os.environb[name] = variable[len(name) + 1:]
    for name in gone:
        del os.environb[name]


def name_of(variable):
    return variable.partition(b"=")[0]
