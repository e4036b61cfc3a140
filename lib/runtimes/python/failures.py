# SPDX-License-Identifier: Apache-2.0
"""How a cell ends badly: exit codes and tracebacks, as CPython has them."""

import sys

import sources
from cells import name_of
from imports import Borrowing
from streams import plain_hooks, write_error

# A frame of the host takes at most 64 MiB. stderr has the whole text.
MESSAGE_CHARS = 64 << 10
TRACEBACK_CHARS = 1 << 20

HINT = ("(commands with %, ! and ? are IPython's, not Python's; "
        "subprocess.run() starts programs)\n")


def report(error, cell_name=None):
    """Show an exception that no code caught; return (exit code, description).

    The description is None for SystemExit.
    """
    if isinstance(error, SystemExit):
        return exit_code(error), None
    clean_chain(error)
    # First: traceback asks for it too, and swallows an interrupt that ends it.
    message = message_of(error)
    text = format_error(error) + hint_at(error)
    code = run_excepthook(error, text)
    if code is None:
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    return code, {
        "name": name_of(type(error)),
        "message": shorten(message, MESSAGE_CHARS),
        "traceback": shorten(text, TRACEBACK_CHARS),
        "line": line_of(error, cell_name),
    }


def exit_code(error):
    """The process's exit code for a SystemExit (P07); prints its message."""
    try:
        code = error.code
    except Exception:
        code = error
    if code is None:
        return 0
    if isinstance(code, int):
        # CPython passes a C long on, and -1 for what does not fit into one.
        return code & 0xFF if -2**63 <= code < 2**63 else 255
    try:
        write_error(str(code) + "\n")
    except Exception:
        write_error("\n")
    return 1


def run_excepthook(error, text):
    """Print like Python, through the code's own hook if it has set one.

    Returns an exit code if the hook chose one with SystemExit.
    """
    hook = getattr(sys, "excepthook", None)
    if hook in plain_hooks:
        write_error(text)
    elif hook is None:
        write_error("sys.excepthook is missing\n" + text)
    else:
        try:
            hook(type(error), error, error.__traceback__)
        except SystemExit as exit:
            return exit_code(exit)
        except BaseException as failure:
            clean_chain(failure)
            write_error("Error in sys.excepthook:\n" + format_error(failure) +
                        "\nOriginal exception was:\n" + text)
    return None


def format_error(error):
    try:
        # traceback imports some modules only when it formats.
        with Borrowing():
            import linecache
            from traceback import TracebackException
            # The code may have emptied the cache.
            sources.list_in(linecache, sources.cells)
            found = TracebackException(type(error), error, error.__traceback__)
            return "".join(found.format())
    except KeyboardInterrupt:
        raise
    except BaseException:
        # The code patched what traceback needs (KRN-14), or is out of memory.
        return format_plainly(error)


def hint_at(error):
    """A line for code of a notebook, whose commands Python knows nothing of."""
    if type(error) is not SyntaxError or error.filename not in sources.cells:
        return ""
    line = error.text.strip() if isinstance(error.text, str) else ""
    # files = !ls
    name, _, value = line.partition("=")
    if name.strip().isidentifier():
        line = value.strip()
    # !ls, ?name, name?, %time, %%time
    is_command = (line[:1] in ("!", "?") or line[-1:] == "?" or
                  line[:1] == "%" and line.lstrip("%")[:1].isalpha())
    return HINT if is_command else ""


def format_plainly(error):
    text = ""
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        text += '  File "%s", line %d, in %s\n' % (
            code.co_filename, tb.tb_lineno, code.co_name)
        tb = tb.tb_next
    if text:
        text = "Traceback (most recent call last):\n" + text
    message = message_of(error)
    return (text + name_of(type(error)) + (": " + message if message else "")
            + "\n")


def message_of(error):
    try:
        return str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        # As traceback says it, also of a SystemExit.
        return "<exception str() failed>"


def shorten(text, chars):
    return text if len(text) <= chars else text[:chars] + "\n[cut]"


def clean_chain(error):
    """Take the driver's frames out of an exception and all it is linked to."""
    waiting, seen = [error], set()
    while waiting:
        each = waiting.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        try:
            each.__traceback__ = clean(each.__traceback__)
            waiting += [each.__cause__, each.__context__]
            members = getattr(each, "exceptions", ())
            waiting += members if isinstance(members, (tuple, list)) else ()
        except Exception:
            # An exception class with properties of its own under these names.
            continue


def clean(tb):
    """A traceback from its first frame in a cell on, without driver frames."""
    head, first = tb, tb
    while first is not None and file_of(first) not in sources.cells:
        first = first.tb_next
    if first is not None:
        # What is before it (an event loop, say) is how we called the cell.
        head = first
    while head is not None and is_ours(head):
        head = head.tb_next
    last = head
    while last is not None:
        while last.tb_next is not None and is_ours(last.tb_next):
            last.tb_next = last.tb_next.tb_next
        last = last.tb_next
    return head


def file_of(tb):
    return tb.tb_frame.f_code.co_filename


def is_ours(tb):
    return file_of(tb).startswith("<glovebox ")


def line_of(error, cell_name):
    """The cell's line that the exception came from, or None."""
    line, tb = None, error.__traceback__
    while tb is not None:
        if file_of(tb) == cell_name:
            line = tb.tb_lineno
        tb = tb.tb_next
    if line is None and isinstance(error, SyntaxError):
        if error.filename == cell_name:
            line = error.lineno
    # The line 0 is where a cell has not quite begun: of an interrupt.
    return line if isinstance(line, int) and line > 0 else None
