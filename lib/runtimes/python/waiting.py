# SPDX-License-Identifier: Apache-2.0
"""An interpreter that was started before there was a call.

join.so does what concerns the kernel (src/join/take.h, src/join/zygote.h):
entering the box, and taking the call, with its limits, its descriptors 0 to 4
and its working folder. What is left to do here is the environment, and forking,
of which the interpreter has to know.
"""

import os
import sys

import cells
import ending

# What most cells need, so that no cell waits for it.
LOADED_BEFORE = ("failures", "results", "sources")


def standby(library):
    """In a ready box: wait for the call and become its payload."""
    library = load(library)
    ending.prepare()
    take(library)


def zygote(library):
    """Outside: fork a payload into each box; only these return."""
    library = load(library)
    ending.prepare()
    import ctypes
    # As src/join/zygote.h has it, with room to spare: nothing of it is read.
    box = ctypes.create_string_buffer(512)
    while True:
        if library.gbx_zygote_wait(box) != 1:
            os._exit(0)
        if os.fork() == 0:
            break
        library.gbx_zygote_close(box)
    # From here on a failure must not go back into the loop.
    try:
        if aim_and_fork(library, box):
            os._exit(0)
        became = library.gbx_zygote_become(box)
        if became == 1:
            cells.rehearse()
        if became >= 0:
            take(library)
            return
    except BaseException:
        pass
    os._exit(127)


def aim_and_fork(library, box):
    """Fork the payload; false in it."""
    payload = library.gbx_zygote_aim(box)
    if payload == 0:
        try:
            payload = os.fork()
        except OSError as error:
            payload = -error.errno
        if payload == 0:
            return False
    library.gbx_zygote_tell(box, payload)
    return True


def load(library):
    import ctypes
    for name in LOADED_BEFORE:
        __import__(name)
    cells.prepare()
    library = ctypes.CDLL(library)
    for name in ("take", "zygote_wait", "zygote_aim", "zygote_become"):
        getattr(library, "gbx_" + name).restype = ctypes.c_long
    library.gbx_zygote_tell.argtypes = ctypes.c_char_p, ctypes.c_long
    return library


def take(library):
    import ctypes

    class Take(ctypes.Structure):
        _fields_ = [("blob", ctypes.c_uint64), ("size", ctypes.c_uint64)]

    taken = Take()
    if library.gbx_take(ctypes.byref(taken)) < 0 or taken.size == 0:
        os._exit(127)
    take_environment(ctypes.string_at(taken.blob, taken.size))


def take_environment(blob):
    """Replace the environment by the one in an exec blob (src/common/wire.h)."""
    argument_count = int.from_bytes(blob[4:8], sys.byteorder)
    # The folder, the arguments, the variables, and nothing behind the last NUL.
    strings = blob[12:].split(b"\0")[:-1]
    os.environ.clear()
    for variable in strings[1 + argument_count:]:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
