# SPDX-License-Identifier: Apache-2.0
"""The end of an interpreter that was started before its call.

Python's own end takes all modules apart, one by one, with the interpreter they
live in. That is most of what such a call would take, and all of it is memory
that the kernel takes back anyway. So here is done what code can see of it, in
the same order: threads are waited for, exit handlers run, buffers are emptied,
the code's objects are finalized, and then the C library's exit() does the same
for C.

With other threads left, the daemons, it is Python's own end after all: only that
keeps them from going on in modules that are being taken apart. And so it is where
objects are left that have something to do at their end.
"""

import builtins
import sys
from _signal import SIG_DFL, getsignal, signal, valid_signals
from _weakref import ref
from atexit import _run_exitfuncs as run_exit_handlers
from gc import callbacks, collect, freeze, get_objects, isenabled
from os import _exit
from sys import _current_frames as list_threads, exit as end_as_python_does

# What Python sets to None before the first module goes.
DELETED = ("path", "argv", "ps1", "ps2", "path_hooks", "path_importer_cache",
           "meta_path", "__interactivehook__")
LAST = "last_exc", "last_type", "last_value", "last_traceback"
kept = []
taken = []

# In Python's own end there is no frame of Python's, and that is what warnings
# about the code's objects then say of their place.
LET_GO = compile("gone.clear(); collect()", "sys", "exec")

STREAMS = [(name, "__%s__" % name) for name in ("stdin", "stdout", "stderr")]

# A name that is no code's.
MARK = "<glovebox mark>"


class Unraisable:
    def __del__(self):
        raise Exception


def prepare():
    global leave, unraisable_type
    import ctypes
    # With the lock of the interpreter held, so that no thread goes on.
    leave = ctypes.pythonapi.exit
    unraisable_type = find_unraisable_type()


def remember():
    """What is there now is not the code's."""
    global before, last_before, shared
    before = frozenset(sys.modules)
    last_before = list(sys.modules)[-1]
    # What code may put its objects into.
    shared = [(vars(module), dict(vars(module))) for module in (sys, builtins)]
    # It is garbage to nobody, and need not be looked through.
    collect()
    freeze()


def find_unraisable_type():
    """What the hook takes, for which Python has no name."""
    found = []
    sys.unraisablehook = lambda unraisable: found.append(type(unraisable))
    Unraisable()
    sys.unraisablehook = sys.__unraisablehook__
    return found[0]


def end(exit_code):
    """Never returns, but raises SystemExit where Python has to end itself."""
    if not has_threads():
        try:
            run_last_code()
            # Those that an exit handler has started.
            if not has_threads():
                exit_code = wind_up(exit_code)
                if not is_anything_left():
                    leave(exit_code)
                put_back()
        except BaseException:
            _exit(exit_code)
    end_as_python_does(exit_code)


def has_threads():
    return len(list_threads()) > 1


def run_last_code():
    if "threading" in sys.modules:
        end_threads(sys.modules["threading"])
    try:
        run_exit_handlers()
    except BaseException:
        pass  # It has told of it.


def wind_up(exit_code):
    if not flush(True):
        exit_code = 120
    try_to(finalize)
    if not flush(False):
        exit_code = 120
    return exit_code


def end_threads(threading):
    if sys.version_info >= (3, 13):
        details = None, "Exception ignored on threading shutdown"
    else:
        details = threading,
    try:
        shutdown = threading._shutdown
    except AttributeError as error:
        tell(error, *details)
    else:
        try_to(shutdown, *details)


def finalize():
    """Let go of the code's modules, the main one first."""
    has_more = any(len(names) != len(values) for names, values in shared)
    if isenabled():
        collect()
    clear_sys()
    callbacks.clear()
    gone = take_modules(sys.modules)
    taken.extend(refer(gone))
    left = mark(gone.get("__main__"))
    exec(LET_GO, {"__name__": "sys", "__builtins__": builtins, "gone": gone,
                  "collect": collect})
    if has_more or left() is not None:
        # What else can hold the code's objects.
        for names, values in shared:
            clear_changed(names, values)
        reset_signals()
        collect()
        if left() is not None and not is_anything_left():
            clear_marked()


def clear_sys():
    names = vars(sys)
    for name in DELETED:
        if name in names:
            # To free what was there before the call would copy its memory.
            kept.append(names[name])
            names[name] = None
    for name in LAST:
        if name in names:
            names[name] = None
    for name, original in STREAMS:
        names[name] = names.get(original)


def take_modules(modules):
    """The code's, the main one first."""
    gone = []
    # Not by looking at all of them, for the same reason: new ones come last.
    for name in reversed(modules):
        if name == last_before:
            break
        gone.append(name)
    gone.append("__main__")
    return {name: modules.pop(name) for name in reversed(gone)
            if name in modules and (name not in before or name == "__main__")}


def refer(modules):
    """Weak references to those that can have one, by name."""
    for name, module in modules.items():
        try:
            yield name, ref(module)
        except TypeError:
            pass


def put_back():
    """Have Python's own end find what is still there of the code's modules."""
    for name, module in taken:
        if module() is not None:
            sys.modules[name] = module()


class Mark:
    pass


def mark(module):
    """A weak reference to a module's names, which have none of their own."""
    mark = Mark()
    names = getattr(module, "__dict__", None)
    if type(names) is dict:
        names[MARK] = mark
    return ref(mark)


def clear_changed(names, values):
    for name in list(names):
        if names[name] is not values.get(name) and (
                name.strip("_") not in dict(STREAMS)):
            names[name] = None


def reset_signals():
    for number in valid_signals():
        if callable(getsignal(number)):
            signal(number, SIG_DFL)


def clear_marked():
    """As Python clears a module: what begins with "_" first."""
    for found in get_objects():
        if type(found) is dict and MARK in found:
            for is_first in True, False:
                for name in list(found):
                    if name is not MARK and name != "__builtins__" and (
                            name[:1] == "_" != name[1:2]) is is_first:
                        found[name] = None


def flush(may_tell):
    done = True
    for name in "stdout", "stderr":
        stream = getattr(sys, name, None)
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            done = False
            # There is no place to tell of the other.
            if may_tell and name == "stdout":
                if sys.version_info >= (3, 13):
                    tell(error, None, "Exception ignored on flushing sys.stdout")
                else:
                    tell(error, stream)
    return done


def is_anything_left():
    """Whether an object is left whose end does something.

    A file that was not written, say, in a module that was there before, in a
    class of it, or in a context. Only Python's own end takes these away.
    """
    return any(hasattr(type(found), "__del__") for found in get_objects())


def try_to(function, *details):
    try:
        function()
    except BaseException as error:
        tell(error, *details)


def tell(error, origin=None, message=None):
    # Without our own frame, which is the outermost.
    traceback = error.__traceback__.tb_next
    values = type(error), error, traceback, message, origin
    try:
        sys.unraisablehook(unraisable_type(values))
    except BaseException:
        # There is no stderr any more.
        pass
