# SPDX-License-Identifier: Apache-2.0
"""IPython.display for code that was written for a notebook (never imported here).

Where no shell of IPython runs, its display() prints the object's text, and what
the object could show is lost. Here it is the driver's display().
"""

import sys


def mend(module, runner):
    """Act on IPython.core.display_functions, or one that has its names."""

    def display(*objects, **options):
        if has_shell():
            return originals["display"](*objects, **options)
        return runner.display(*objects, **options)

    def publish_display_data(data, *arguments, **options):
        if has_shell():
            return originals["publish_display_data"](data, *arguments,
                                                     **options)
        return runner.display(data, raw=True)

    def clear_output(*arguments, **options):
        # It would print what clears the line of a terminal.
        if has_shell():
            originals["clear_output"](*arguments, **options)

    originals = {}
    for each in display, publish_display_data, clear_output:
        name = each.__name__
        original = vars(module).get(name)
        if original is None:
            # It has moved, or comes by a __getattr__ that warns.
            continue
        originals[name] = original
        each.__qualname__ = name
        each.__doc__ = original.__doc__
        setattr(module, name, each)


def has_shell():
    """Tell whether the code has started a shell of IPython itself."""
    module = sys.modules.get("IPython.core.interactiveshell")
    shell = getattr(module, "InteractiveShell", None)
    return shell is not None and shell.initialized()
