# SPDX-License-Identifier: Apache-2.0
"""The main file of a process that a cell starts by spawn or forkserver.

spawning.py appends a call of define() with the cells. This runs as __mp_main__
in an interpreter without the driver.
"""


def define(cells, namespace):
    import ast
    import builtins
    import linecache

    futures = 0
    # What the present cell displayed before is not displayed again.
    builtins.display = lambda *objects, **options: None
    for name, source, kept, strict in cells:
        lines = [line + "\n" for line in source.split("\n")]
        linecache.cache[name] = (len(source), None, lines, name)
        flags = futures | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        body = compile(source, name, "exec", flags | ast.PyCF_ONLY_AST,
                       True).body
        for index in kept:
            statement = ast.Module([body[index]], [])
            code = compile(statement, name, "exec", flags, True)
            # The bits of `from __future__` statements, for what follows.
            flags |= code.co_flags & 0x1FE0000
            futures |= code.co_flags & 0x1FE0000
            if code.co_flags & 0x80:
                # It awaits something: an effect, and not ours to repeat.
                continue
            try:
                exec(code, namespace)
            except Exception:
                if strict:
                    raise
    builtins.display = lambda *objects, **options: print(*objects, sep="\n")
