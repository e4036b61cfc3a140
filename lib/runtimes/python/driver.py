# SPDX-License-Identifier: Apache-2.0
"""The python driver: runs cells that come over a control socket.

Theory of operation. The engine starts `python3 driver.py` in a box with a
connected socket at descriptor 3 (docs/protocol.md). Code that nobody has read
then shares this process with the driver, so the driver protects itself only
against accidents: code that shadows, patches or deletes what the driver needs
may spoil its own cell, not the next one, and never the driver's framing.

  - The driver's files are no modules of the interpreter. They are loaded by
    `load` below under names like `<glovebox cells>`, are not in sys.modules,
    and see a private copy of the builtins; so `import results` in a cell finds
    the workspace's results.py, and patching `builtins.compile` patches nothing
    here.
  - An import statement in the driver's files goes through `private_import`: it
    finds the driver's files and the standard library, and never the workspace,
    whatever lies there or in sys.modules under that name.
  - Start-up loads what is built into the interpreter and little else. What only
    some cells need, of the driver's files and of the library (traceback,
    asyncio), is loaded by the first that does: import statements in functions.

This file does nothing when it is imported but to load its siblings: `serve`
holds all that belongs to one run, so that a warm interpreter can fork first.
"""

import builtins
import sys

# Python puts the script's folder in front of sys.path. It has to go before the
# next import: nothing of the driver may be importable by the code.
if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
    del sys.path[0]

import os

HERE = os.path.dirname(os.path.abspath(__file__))
OWN_FILES = ("awaiting", "cells", "channel", "classes", "failures", "figures",
             "imports", "results", "sources", "spawning", "streams")


def path_of(name):
    return os.path.join(HERE, name + ".py")


def read(name):
    with open(path_of(name), encoding="utf-8") as file:
        return file.read()


# Read now, since the code may use up all descriptors; compiled when needed,
# since compiling them all takes longer than the rest of the start.
texts = {name: read(name) for name in OWN_FILES}
loaded = {}
private_builtins = dict(vars(builtins))
# For the functions of this file too.
__builtins__ = private_builtins


def load(name):
    """Load one of the driver's files, once."""
    if name in loaded:
        return loaded[name]
    module = type(sys)(name)
    module.__file__ = path_of(name)
    module.__builtins__ = private_builtins
    # Where the code looks at the stack, it sees a name that explains itself.
    # Tracebacks that the driver prints do not have these frames.
    code = compile(texts[name], "<glovebox %s>" % name, "exec",
                   dont_inherit=True)
    exec(code, vars(module))
    loaded[name] = module
    return module


def private_import(name, globals=None, locals=None, fromlist=(), level=0):
    """What an import statement in the driver's files does."""
    return load(name) if name in OWN_FILES else borrow(name)


borrow = load("imports").borrow
private_builtins["__import__"] = private_import
serve = load("cells").serve

if __name__ == "__main__":
    serve(3)
