# SPDX-License-Identifier: Apache-2.0
"""The cells' source text, for tracebacks, warnings and inspect.getsource."""

import sys

# File name -> source of every cell, the newest last.
cells = {}


def normalise(source):
    """The text with the lines that the tokenizer will count."""
    if source.startswith("\ufeff"):
        source = source[1:]
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    return source


def remember(name, source):
    # A name that comes again is a new cell.
    cells.pop(name, None)
    cells[name] = source
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        list_in(linecache, [name])


def forget(name):
    cells.pop(name, None)
    linecache = sys.modules.get("linecache")
    if linecache is not None:
        linecache.cache.pop(name, None)


def are_in(traceback):
    """Tell whether a traceback goes through a cell."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in cells:
            return True
        traceback = traceback.tb_next
    return False


def list_in(linecache, names):
    cache = getattr(linecache, "cache", None)
    if not isinstance(cache, dict):
        # The workspace has a linecache.py, and the code has imported it.
        return
    for name in names:
        # Not str.splitlines: it also breaks lines at \f, \x1c and \u2028.
        lines = [line + "\n" for line in cells[name].split("\n")]
        # No modification time: linecache.checkcache() then keeps the entry.
        cache[name] = (len(cells[name]), None, lines, name)


def mend(linecache, runner):
    list_in(linecache, cells)
