# SPDX-License-Identifier: Apache-2.0
"""The python driver: runs cells that come over a socket.

Theory of operation. The engine starts `python3 driver.py` in a box with a
socket for cells at descriptor 3 and a pipe for answers at descriptor 4
(docs/protocol.md); or the launcher has started `python3 driver.py standby` in a
ready box, and it has waited for the two. Code that nobody has read then shares this process with the driver, so the driver protects itself only
against accidents: code that shadows, patches or deletes what the driver needs
may spoil its own cell, not the next one, and never the driver's framing.

  - The driver's files are no modules of the interpreter. imports.py loads them
    under names like `<glovebox cells>`; they are not in sys.modules and see a
    private copy of the builtins. So `import results` in a cell finds the
    workspace's results.py, and patching builtins.compile patches nothing here.
  - An import statement in the driver's files finds the driver's files and the
    standard library, and never the workspace, whatever lies there or in
    sys.modules under that name.
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


def load_loader():
    """Load imports.py as it then loads the other files."""
    path = os.path.join(HERE, "imports.py")
    with open(path, "rb") as file:
        source = file.read()
    loader = {"__name__": "glovebox.imports", "__file__": path,
              "__builtins__": dict(vars(builtins))}
    code = compile(source, "<glovebox imports>", "exec", dont_inherit=True)
    exec(code, loader)
    return loader["load"]


load = load_loader()
serve = load("cells").serve

if __name__ == "__main__":
    end = sys.exit
    if sys.argv[1:]:
        getattr(load("waiting"), sys.argv[1])(*sys.argv[2:])
        end = load("ending").end
    serve(3, 4, end)
