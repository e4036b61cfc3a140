# SPDX-License-Identifier: Apache-2.0
"""Imports: the driver's own files, the standard library, the code's imports."""

import os
import sys
from _frozen_importlib import BuiltinImporter, FrozenImporter
from _frozen_importlib_external import PathFinder
from _thread import get_ident

OWN_FILES = ("awaiting", "cells", "channel", "classes", "ending", "failures",
             "figures", "imports", "kernel", "notebooks", "preloading",
             "results", "scouting", "sources", "spawning", "streams",
             "supervisor", "waiting")

# Before the driver's own import statements get another meaning.
original_import = __import__


def path_of(name):
    return os.path.join(os.path.dirname(__file__), name + ".py")


def read(name):
    with open(path_of(name), "rb", 0) as file:
        return file.read()


# Read now, since the code may use up all descriptors; compiled when needed,
# since compiling them all takes longer than the rest of the start.
texts = {name: read(name) for name in OWN_FILES}
loaded = {}


def load(name):
    """Load one of the driver's files, once."""
    if name in loaded:
        return loaded[name]
    module = type(sys)("glovebox." + name)
    module.__file__ = path_of(name)
    module.__builtins__ = __builtins__
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


def stdlib_path():
    """The folders of the standard library, without what the user may add."""
    home = os.path.dirname(os.__file__)
    ends = "/lib-dynload", "/python%d%d.zip" % sys.version_info[:2]
    return [entry for entry in sys.path
            if entry == home or entry.endswith(ends)]


STDLIB = stdlib_path()

borrowed = {}


def borrow(name):
    """Import a module of the standard library for the driver.

    The modules found are left in sys.modules as by any other import, except
    where the code has its own module of that name.
    """
    if name not in borrowed:
        module = sys.modules.get(name)
        if module is None or shadows_stdlib(name, module):
            with Borrowing():
                module = original_import(name)
        borrowed[name] = module
    return borrowed[name]


class Borrowing:
    """While entered, what this thread imports is the standard library's.

    The workspace may hold a traceback.py (P21), and a cell may have imported
    it: both are looked past.
    """

    def __enter__(self):
        self.hidden = {name: module for name, module
                       in list(sys.modules.items())
                       if shadows_stdlib(name, module)}
        for name in self.hidden:
            sys.modules.pop(name, None)
        if finder not in sys.meta_path:
            sys.meta_path.insert(0, finder)
        self.before, finder.borrower = finder.borrower, get_ident()

    def __exit__(self, *failure):
        finder.borrower = self.before
        sys.modules.update(self.hidden)


def find_in_stdlib(name, path):
    return (BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name) or
            PathFinder.find_spec(name, STDLIB if path is None else path))


def shadows_stdlib(name, module):
    """Tell whether a loaded module only has the name of a standard one."""
    file = getattr(module, "__file__", None)
    if "." in name or not isinstance(file, str):
        return False
    if os.path.dirname(file) in STDLIB:
        return False
    spec = PathFinder.find_spec(name, STDLIB)
    return bool(spec and spec.has_location and spec.origin != file)


def after_import(name, action):
    """Have action(module) called when the code has imported a module.

    So the driver can mend what a library does without importing the library.
    A module that is there already is acted on at once.
    """
    finder.actions[name] = action
    if name in sys.modules:
        act(action, sys.modules[name])


def act(action, module):
    try:
        action(module)
    except Exception:
        # A module of that name with another inside (the workspace's own
        # inspect.py, a later version): it is used as it is.
        pass


class Finder:
    """The first finder of sys.meta_path; it finds nothing by itself."""

    def __init__(self):
        self.actions = {}
        # The thread that borrows. Only its imports keep to the library: other
        # threads of the code may be importing at the same time.
        self.borrower = None

    def find_spec(self, name, path=None, target=None):
        if self.borrower == get_ident():
            spec = find_in_stdlib(name, path)
        elif name in self.actions:
            spec = self.ask_others(name, path, target)
        else:
            return None
        if spec is not None and name in self.actions:
            self.arm(spec, self.actions[name])
        return spec

    def ask_others(self, name, path, target):
        for other in sys.meta_path:
            find_spec = getattr(other, "find_spec", None)
            if other is not self and find_spec is not None:
                spec = find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def arm(self, spec, action):
        """Make the spec's loader call the action once the module is there."""
        execute = getattr(spec.loader, "exec_module", None)

        def exec_module(module):
            execute(module)
            act(action, module)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            # A loader that allows no attribute: the module stays unmended.
            pass


finder = Finder()
sys.meta_path.insert(0, finder)

# This file is one of those that can be imported.
loaded["imports"] = type(sys)("glovebox.imports")
vars(loaded["imports"]).update(globals())
__builtins__["__import__"] = private_import
