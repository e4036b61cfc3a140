# SPDX-License-Identifier: Apache-2.0
"""inspect.getsource for classes: finding the cell that made one."""

from _ast import (AsyncFunctionDef, ClassDef, FunctionDef,
                  PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST)

import sources


def mend(inspect, runner):
    """Let inspect find a class without a file of its module.

    That is where it looks for a class's source, and __main__ has none.
    """
    original = inspect.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            name = cell_of_class(object)
            if name is not None:
                return name
        return original(object)

    getfile.__doc__ = original.__doc__
    inspect.getfile = getfile


def cell_of_class(cls):
    """The cell of a class's methods, or the newest with a class of its name."""
    for value in vars(cls).values():
        name = getattr(getattr(value, "__code__", None), "co_filename", None)
        if name in sources.cells:
            return name
    path = [part for part in cls.__qualname__.split(".") if part != "<locals>"]
    for name in reversed(list(sources.cells)):
        try:
            if defines_class(parse(name), path):
                return name
        except (SyntaxError, ValueError):
            # A cell that did not compile defined nothing.
            continue
    return None


def parse(name):
    flags = PyCF_ONLY_AST | PyCF_ALLOW_TOP_LEVEL_AWAIT
    return compile(sources.cells[name], name, "exec", flags, True)


def defines_class(node, path):
    for child in child_statements(node):
        if not isinstance(child, (ClassDef, FunctionDef, AsyncFunctionDef)):
            # if, try, with and loops open no scope of their own.
            if defines_class(child, path):
                return True
        elif child.name == path[0]:
            if len(path) == 1 and isinstance(child, ClassDef):
                return True
            if len(path) > 1 and defines_class(child, path[1:]):
                return True
    return False


def child_statements(node):
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        children = getattr(node, field, ())
        # A lambda and a conditional expression have a body that is no list.
        if isinstance(children, list):
            yield from children
