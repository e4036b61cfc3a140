# SPDX-License-Identifier: Apache-2.0
"""multiprocessing's spawn and forkserver, for functions made in cells.

Such a child is a new interpreter. It gets functions by their name in __main__,
so it first imports the parent's main file again. Cells have no file: the child
is given one in memory, spawned.py with the cells appended. It runs

  - of the present cell, what stands before the statement that is running now:
    like a script's second import, except that it ends where the parent is, so
    a missing `if __name__ == "__main__"` does not start processes for ever;
  - of earlier cells of a kernel, only what defines something. Loops and calls
    for their effect have had their effect.
"""

import os
import sys
from _ast import (AnnAssign, Assign, AsyncFunctionDef, ClassDef, FunctionDef,
                  If, Import, ImportFrom, Try)

import sources
from classes import parse

DEFINING = (AnnAssign, Assign, AsyncFunctionDef, ClassDef, FunctionDef, If,
            Import, ImportFrom, Try)


def mend(spawn, runner):
    original = spawn.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        if sys.modules.get("__main__") is runner.main:
            data["init_main_from_path"] = main_file(runner.main_thread)
        return data

    spawn.get_preparation_data = get_preparation_data


files = {}


def main_file(main_thread):
    """The path of a file that defines what the cells have defined by now."""
    with open(os.path.join(os.path.dirname(__file__), "spawned.py"),
              encoding="utf-8") as file:
        text = file.read()
    text += "\n\ndefine(%r, globals())\ndel define\n" % parts(main_thread)
    # A pool starts many children of one state: they share the file.
    if text not in files:
        files.clear()
        files[text] = write_file(text.encode("utf-8"))
    return files[text]


def write_file(data):
    """A file that no folder holds, so nobody has to remove it.

    It is never closed: a child may be slow to start.
    """
    fd = os.memfd_create("main")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    return "/proc/%d/fd/%d" % (os.getpid(), fd)


def parts(main_thread):
    """(name, source, indices of statements, whether errors matter) by cell."""
    names = list(sources.cells)
    chosen = []
    for name in names:
        try:
            body = parse(name).body
        except (SyntaxError, ValueError):
            continue
        line = running_line(name, main_thread) if name == names[-1] else None
        if line is None:
            kept = [index for index, statement in enumerate(body)
                    if isinstance(statement, DEFINING)]
        else:
            kept = [index for index, statement in enumerate(body)
                    if statement.end_lineno < line]
        chosen.append((name, sources.cells[name], kept, line is not None))
    return chosen


def running_line(name, main_thread):
    """The line of a cell that the main thread is in, if it is in it."""
    frame = sys._current_frames().get(main_thread)
    while frame is not None:
        code = frame.f_code
        if code.co_filename == name and code.co_name == "<module>":
            return frame.f_lineno
        frame = frame.f_back
    return None
