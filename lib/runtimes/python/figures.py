# SPDX-License-Identifier: Apache-2.0
"""matplotlib's figures, if the code uses matplotlib; never imported here."""

import sys
from _io import BytesIO
from os import environ

# Drawing may warn (a missing glyph, say), and warnings name the file of the
# first caller outside matplotlib: it is not to be one of ours.
save = compile("figure.savefig(buffer, format='png')", "<figure>", "eval")


def mend(module, runner):
    """Act on matplotlib, matplotlib.figure or matplotlib.pyplot."""
    if module.__name__ == "matplotlib":
        choose_backend(module)
    elif module.__name__ == "matplotlib.figure":
        replace_show(module.Figure, lambda self, warn=True:
                     runner.display(self))
    else:
        replace_show(module, lambda *args, **kwargs:
                     each_open(runner.display))


def choose_backend(matplotlib):
    # Not by MPLBACKEND: the environment is the user's. The host's matplotlibrc
    # may name a window toolkit, which cannot work in a box.
    if not environ.get("MPLBACKEND"):
        matplotlib.use("agg")


def replace_show(owner, show):
    # The show() of a backend without windows shows nothing and warns (P18).
    show.__name__ = show.__qualname__ = "show"
    show.__doc__ = owner.show.__doc__
    owner.show = show


def is_figure(value):
    figure = getattr(sys.modules.get("matplotlib.figure"), "Figure", None)
    return isinstance(figure, type) and isinstance(value, figure)


def png_of(figure):
    buffer = BytesIO()
    eval(save, {"figure": figure, "buffer": buffer})
    return buffer.getvalue()


def close(figure):
    """Take a figure out of pyplot's list, or it would come again (P18)."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(figure)


def each_open(display):
    """Show and close all figures that pyplot has open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    # Half a module while its import runs or after it failed has no such list.
    numbers = getattr(pyplot, "get_fignums", list)()
    figures = [pyplot.figure(number) for number in numbers]
    try:
        for figure in figures:
            # The background is always there. A figure with nothing else comes
            # from a savefig() after show(), and was not meant to be seen.
            if len(figure.get_children()) > 1:
                display(figure)
    finally:
        # Those too that an error or an interrupt has kept from being drawn.
        for figure in figures:
            close(figure)
