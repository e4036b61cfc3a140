# SPDX-License-Identifier: Apache-2.0
"""Top-level await.

The event loop is the driver's own and runs only while a cell awaits; it is set
nowhere, so asyncio.run() works before and after (P15). It stays for the next
cell, and the code's tasks with it.
"""

import asyncio

import sources

loop = None
# Whether nothing of the last run is left in the loop.
is_settled = True


def complete(function, *arguments):
    """Call a coroutine function and return its value."""
    global loop, is_settled
    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    settle()
    is_settled = False
    task = loop.create_task(function(*arguments))
    try:
        value = loop.run_until_complete(task)
        is_settled = True
        return value
    except KeyboardInterrupt as interrupt:
        if task.done() or sources.are_in(interrupt.__traceback__):
            raise
        # It met the loop, which says nothing of where the cell waits.
        raise interrupt.with_traceback(where(task, interrupt.__traceback__))
    finally:
        let_go()
        if not task.done():
            # Interrupted, or the code stopped the loop: like asyncio.run().
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        if not task.cancelled():
            # It is raised already: not to be logged as never retrieved.
            task.exception()


def let_go():
    """Have the loop not seem to run.

    An interrupt may have come just as it ended.
    """
    asyncio._set_running_loop(None)
    if loop.is_running():
        try:
            loop._thread_id, loop._stopping = None, False
        except AttributeError:
            # A loop of another make.
            pass


def settle():
    """Have the loop do what was about to end its last run.

    An interrupt may have come before that, and the next run would end by it.
    """
    global is_settled
    if not is_settled:
        loop.call_soon(loop.stop)
        loop.run_forever()
        is_settled = True


def where(task, otherwise):
    """A traceback of the coroutines of a task that waits."""
    frames, coroutine = [], task.get_coro()
    while coroutine is not None:
        found = inside(coroutine, "frame")
        if found is not None:
            frames.append(found)
        coroutine = inside(coroutine, "await") or inside(coroutine,
                                                         "yieldfrom")
    traceback = None
    for frame in reversed(frames):
        traceback = type(otherwise)(traceback, frame, frame.f_lasti,
                                    frame.f_lineno)
    return traceback or otherwise


def inside(coroutine, name):
    """What a coroutine or generator has under one of its three prefixes."""
    for prefix in "cr_", "gi_", "ag_":
        found = getattr(coroutine, prefix + name, None)
        if found is not None:
            return found
    return None


def close():
    """Do what asyncio.run() does at its end."""
    global loop
    if loop is None or loop.is_closed():
        return
    try:
        settle()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))
        loop.run_until_complete(loop.shutdown_asyncgens())
        # Since Python 3.9.
        if hasattr(loop, "shutdown_default_executor"):
            loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
        loop = None


def part_from_parent():
    """After a fork that goes on in its parent's place.

    The loop's epoll instance is one with the parent's and its other children's:
    what they take off it would be gone here.
    """
    selector = getattr(loop, "_selector", None)
    if selector is None or loop.is_closed():
        return
    try:
        # Its threads are not there, but it would wait for them.
        loop._default_executor = None
        own = type(selector)()
        for key in list(selector.get_map().values()):
            own.register(key.fileobj, key.events, key.data)
        loop._selector = own
        selector.close()
    except Exception:
        # A loop of another make: it is used as it is.
        pass
