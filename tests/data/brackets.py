"""A parser of linearised trees, for tests that linearisation loses nothing but the words."""

from __future__ import annotations

from data.sources.trees import Tree


def delinearised(line: str) -> Tree:
    """Returns the tree (without words) of a linearised ``line``."""
    stack: list[tuple[str, list[Tree]]] = [("", [])]
    for symbol in line.split():
        if symbol.startswith("(") and len(symbol) > 1:
            stack.append((symbol[1:], []))
        elif symbol.startswith(")") and len(symbol) > 1:
            label, children = stack.pop()
            assert label == symbol[1:] and children, f"{symbol!r} closes no matching bracket in {line!r}."
            stack[-1][1].append(Tree(label, tuple(children)))
        else:
            stack[-1][1].append(Tree(symbol))
    ((_, trees),) = stack
    (tree,) = trees
    return tree
