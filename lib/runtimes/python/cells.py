# SPDX-License-Identifier: Apache-2.0
"""Cells: the loop that serves them, and how one is run."""

import builtins
import sys
from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from _frozen_importlib import BuiltinImporter
from _thread import get_ident
from os import getpid
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace

import sources
import streams
from channel import CELL, DONE, Channel, to_json, unblock_signals
from imports import after_import

# The bits of `from __future__` statements in a code object's flags. They mean
# the same when handed to compile().
FUTURES = 0x1FE0000
CO_COROUTINE = 0x80

# A class's name. Its metaclass may have a __name__ that does anything.
name_of = vars(type)["__name__"].__get__

# The answer of most cells.
NO_FAILURE = to_json({"exitCode": 0, "error": None})

# What the driver's own work may need.
RECURSION_LIMIT = 500

# Libraries that need a hand in here, and the file of the driver that lends it.
MENDED = {
    "IPython.core.display": "notebooks",
    "IPython.core.display_functions": "notebooks",
    # It may have been preloaded with the names of the other.
    "IPython.display": "notebooks",
    "inspect": "classes",
    "linecache": "sources",
    "matplotlib": "figures",
    "matplotlib.figure": "figures",
    "matplotlib.pyplot": "figures",
    "multiprocessing.spawn": "spawning",
}


def serve(cell_fd, answer_fd, leave):
    """Run cells until no more can come, then end the interpreter.

    `leave` gets the last cell's exit code. It may be sys.exit: the interpreter
    then goes the ordinary way: threads, exit handlers, buffers.
    """
    runner = prepared or Runner()
    runner.channel.open(cell_fd, answer_fd)
    exit_code = 0
    while True:
        frame = runner.wait_for_frame()
        if frame is None:
            break
        kind, message = frame
        if kind != CELL:
            continue
        if message.get("kernel"):
            import kernel
            exit_code = kernel.serve(runner, message)
            break
        exit_code = runner.run(message)
    runner.close()
    leave(exit_code)


prepared = None


def prepare():
    """Do of serve() what can be done before there is a call."""
    global prepared
    prepared = Runner()
    rehearse()


class Nowhere:
    """A channel for a cell that nobody gave."""

    def is_open(self):
        return True

    def block_signals(self):
        return None

    def send(self, kind, body):
        pass

    send_blocked = hold = send


def renew_main():
    """Give the code a main module that is younger than all else there is."""
    prepared.use_main(make_main())


def rehearse():
    """Run a cell of no effect.

    So that the interpreter has learned what it learns of code by running it.
    """
    channel, prepared.channel = prepared.channel, Nowhere()
    prepared.run({"code": "print(end='')\n0", "name": "<rehearsal>"})
    prepared.restore()
    prepared.channel = channel
    prepared.must_restore = False
    prepared.publisher = None
    prepared.count = 0
    sources.forget("<rehearsal>")


def make_main():
    """Give the interpreter the __main__ that `python3 -c` has.

    A real module in sys.modules, so that pickle, dataclasses, multiprocessing
    and `import __main__` see the cells' names (P11), and none of the driver's.
    """
    main = type(sys)("__main__")
    # Until Python 3.13 the main module has it from the start.
    if "__annotations__" in vars(sys.modules["__main__"]):
        main.__annotations__ = {}
    main.__builtins__ = builtins
    main.__loader__ = BuiltinImporter
    sys.modules["__main__"] = main
    return main


def look_like_command():
    """Have the words and the path that `python3 -c` has."""
    sys.argv[:] = ["-c"]
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path.insert(0, "")


class Runner:
    """Runs cells in one namespace, and answers on its channel."""

    def __init__(self):
        self.channel = Channel()
        self.main_thread = get_ident()
        self.count = 0
        self.must_restore = False
        # Whether the cell that runs has its answer.
        self.is_answered = False
        self.futures = 0
        self.publisher = None
        self.awaiting = None
        vars(builtins)["display"] = self.display
        self.builtins = dict(vars(builtins))
        self.use_main(make_main())
        look_like_command()
        self.importing = {name: getattr(sys, name) for name in
                          ("meta_path", "modules", "path", "path_hooks")}
        streams.prepare()
        for library, file in MENDED.items():
            after_import(library, self.mender(file))

    def use_main(self, main):
        """Run the cells to come in this module."""
        self.main = main
        # What is put back before each cell if it is missing.
        self.essentials = [
            (vars(builtins), self.builtins),
            (vars(main), dict(vars(main))),
            (sys.modules, {"__main__": main}),
        ]
        self.marks = [None] * len(self.essentials)

    def mender(self, file):
        return lambda module: __import__(file).mend(module, self)

    def display(self, *objects, include=None, exclude=None, raw=False,
                **ignored):
        """Show objects as rich results, each in the forms it can give."""
        # Notebooks' display() has more options; code written for them runs.
        self.get_publisher().display(objects, include, exclude, raw)

    def get_publisher(self):
        if self.publisher is None:
            from results import Publisher
            self.publisher = Publisher(self.channel)
        return self.publisher

    def display_figures(self):
        """Show the figures that the code left open."""
        if "matplotlib.pyplot" in sys.modules:
            from figures import each_open
            self.heed(each_open, self.display)

    def flush_replaced(self):
        """Flush what the code has put in the place of sys.stdout."""
        if streams.are_replaced():
            self.heed(streams.flush_replaced)

    def heed(self, function, *arguments):
        """Call what runs code of the cell's beside execute().

        A kernel has SIGINT interrupt it.
        """
        return function(*arguments)

    def wait_for_frame(self):
        while True:
            try:
                return self.channel.receive()
            except BaseException as error:
                late = error
            self.handle_late(late)

    def handle_late(self, error):
        """What a signal handler of the code raises between two cells."""
        if isinstance(error, SystemExit):
            raise error
        # An interrupt was meant for the cell that has just ended.
        if not isinstance(error, KeyboardInterrupt):
            self.explain(error, None)

    def run(self, cell):
        """Run one cell and answer; return its exit code."""
        self.is_answered = False
        self.count += 1
        name = cell.get("name") or "<cell %d>" % self.count
        if self.must_restore:
            self.restore()
        self.must_restore = True
        failure = attempt(self.execute, cell["code"], name)
        for finish in self.display_figures, self.flush_replaced:
            unfinished = attempt(finish)
            if failure is None:
                failure = unfinished
        # From here on no signal handler of the code may cut in: the cell would
        # get no answer, or two.
        signals = self.channel.block_signals()
        exit_code = self.answer(failure, name)
        if signals is not None:
            late = attempt(unblock_signals, signals)
            if late is not None:
                self.handle_late(late)
        return exit_code

    def answer(self, failure, name, **more):
        """Answer a cell; no signal handler of the code may cut in."""
        exit_code, body = 0, NO_FAILURE
        if failure is not None or more:
            exit_code, description = self.explain(failure, name)
            body = to_json(dict(more, exitCode=exit_code, error=description))
        streams.flush()
        self.channel.send_blocked(DONE, body)
        self.is_answered = True
        return exit_code

    def explain(self, failure, name):
        """What the answer says of an exception, which is shown on stderr."""
        if failure is None:
            return 0, None
        interrupt = None
        try:
            return self.heed(describe, failure, name)
        except KeyboardInterrupt as error:
            interrupt = error
        try:
            return describe(interrupt, name)
        except KeyboardInterrupt:
            return describe_barely(interrupt)

    def restore(self):
        """Undo what the cell before took from everybody (KRN-14)."""
        for index, (namespace, values) in enumerate(self.essentials):
            if self.marks[index] and mark(namespace) == self.marks[index]:
                continue
            if not values.keys() <= namespace.keys():
                for name, value in values.items():
                    namespace.setdefault(name, value)
            self.marks[index] = mark(namespace)
        for name, value in self.importing.items():
            if not isinstance(getattr(sys, name, None), type(value)):
                setattr(sys, name, value)
        streams.restore()
        # Warnings are told apart by line number, and each cell has a line 1.
        vars(self.main).pop("__warningregistry__", None)
        if self.publisher is not None:
            self.publisher.count = 0

    def execute(self, code, name):
        source = sources.normalise(code)
        sources.remember(name, source)
        codes = self.compile(source, name)
        if any(code.co_flags & CO_COROUTINE for code in codes):
            value = self.complete(codes)
        else:
            for code in codes:
                value = guard(eval, code, vars(self.main))
        if value is not None:
            self.get_publisher().display_main(value)
            if type(value) is COROUTINE:
                holder = [value]
                del value
                let_go(holder, codes[-1], name)

    def compile(self, source, name):
        """The cell in two code objects: statements, then the last value's.

        There is no second one if the cell ends in no value.
        """
        try:
            codes = self.compile_parts(source, name)
        except (MemoryError, RecursionError):
            # Very deep code that Python can still compile in one piece. Not in
            # here: an error would have ours as its context.
            codes = None
        if codes is None:
            flags = self.futures | PyCF_ALLOW_TOP_LEVEL_AWAIT
            codes = [compile(source, name, "exec", flags, True)]
        self.futures |= codes[0].co_flags & FUTURES
        return codes

    def compile_parts(self, source, name):
        flags = self.futures | PyCF_ALLOW_TOP_LEVEL_AWAIT
        if may_be_expression(source):
            try:
                return [compile(source, name, "eval", flags, True)]
            except SyntaxError:
                # Or a statement, or wrong: what follows knows.
                pass
        tree = compile(source, name, "exec", flags | PyCF_ONLY_AST, True)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, Expr) or ends_in_semicolon(source, last):
            return [compile(tree, name, "exec", flags, True)]
        tree.body.pop()
        codes = []
        if tree.body:
            codes = [compile(tree, name, "exec", flags, True)]
            flags |= codes[0].co_flags & FUTURES
        value = compile(Expression(last.value), name, "eval", flags, True)
        return codes + [value]

    def complete(self, codes):
        """Run code that awaits; all of it sees the running event loop."""
        import awaiting
        self.awaiting = awaiting
        return guard(awaiting.complete, self.evaluate, codes)

    async def evaluate(self, codes):
        for code in codes:
            value = eval(code, vars(self.main))
            if code.co_flags & CO_COROUTINE:
                value = await value
        return value

    def close(self):
        # Not in a forked child: the loop's epoll instance is its parent's too.
        if self.awaiting is not None and self.channel.owner == getpid():
            self.explain(attempt(self.awaiting.close), None)
        # The module is to go when the interpreter lets go of it, as a script's
        # does, for the sake of the code's finalizers.
        self.main = self.essentials = None


def guard(function, *arguments):
    """Call into the code, and then take its tracers and its low limit off.

    They would act on the driver, and a tracer can be an endless loop (KRN-14).
    No function stands between: its call would be the tracer's next event. With
    a profiler each of the two calls is one.
    """
    try:
        return function(*arguments)
    finally:
        try:
            setprofile(None)
        finally:
            settrace(None)
        if getrecursionlimit() < RECURSION_LIMIT:
            setrecursionlimit(RECURSION_LIMIT)


def let_go(holder, code, name):
    """Have a coroutine that nobody awaits end in the line that made it.

    Python warns of it, and names the line that lets go of it.
    """
    from dis import findlinestarts
    line = max(number or 1 for _, number in findlinestarts(code))
    eval(compile("\n" * (line - 1) + "holder.clear()", name, "exec", 0, True),
         {"holder": holder})


async def make_nothing():
    pass


example = make_nothing()
example.close()
COROUTINE = type(example)


def attempt(function, *arguments):
    """Call a function; return the exception that came out, if any.

    So the code's exceptions are dealt with outside of an except block: there
    they would become the context of each further one.
    """
    try:
        function(*arguments)
    except BaseException as error:
        return error
    return None


def mark(namespace):
    """What is another for a dict that has lost a name, but for rare accidents.

    A look at each of the 150 names of builtins takes longer than a small cell.
    """
    return len(namespace), next(reversed(namespace), None)


def describe(failure, name):
    """Runner.explain() but for interrupts, which come out."""
    try:
        import failures
        return failures.report(failure, name)
    except KeyboardInterrupt:
        raise
    except BaseException:
        # Out of memory, most likely. The cell still gets its answer.
        return describe_barely(failure)


def describe_barely(failure):
    return 1, {"name": name_of(type(failure)), "message": "",
               "traceback": "", "line": None}


def may_be_expression(source):
    """Tell whether it is worth trying, since that takes a third of the time.

    Not with a backslash: the parser may warn of one, and would do it twice. And
    an expression may be indented where a statement may not.
    """
    return ("\n" not in source and "\\" not in source
            and source[:1] not in ("", " ", "\t", "\f"))


def ends_in_semicolon(source, statement):
    """Tell whether a `;` follows the last statement (P16).

    After it come only blanks, a line continuation, a comment or a line end, so
    the first other character decides.
    """
    lines = source.split("\n")[statement.end_lineno - 1:]
    # Columns count bytes.
    rest = lines[0].encode("utf-8")[statement.end_col_offset:].decode("utf-8")
    rest = "\n".join([rest] + lines[1:])
    return rest.lstrip(" \t\f\\\n").startswith(";")
