"""Equations as MathML: cases solved by hand, and the equations in all docstrings of objectives."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from analysis.comparison.formulas import typeset


def mathml_content(equation: str) -> str:
    """Returns the content of the only ``<math>`` element, without attributes and spaces."""
    [[math]] = typeset(equation)
    bare = re.sub(r"<(\w+)[^>]*?(/?)>", r"<\1\2>", str(math)).replace("<mspace/>", "")
    return bare.removeprefix("<math>").removesuffix("</math>")


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        ("x_i", "<msub><mi>x</mi><mrow><mi>i</mi></mrow></msub>"),
        ("x^2 - 1", "<msup><mi>x</mi><mrow><mn>2</mn></mrow></msup><mo>−</mo><mn>1</mn>"),
        (
            "a = - 1 / N",
            "<mi>a</mi><mo>=</mo><mo>−</mo><mfrac><mrow><mn>1</mn></mrow><mrow><mi>N</mi></mrow></mfrac>",
        ),
        ("(a / b)", "<mo>(</mo><mi>a</mi><mo>/</mo><mi>b</mi><mo>)</mo>"),
        pytest.param(
            "sum_{j in C} z'",
            "<munder><mo>∑</mo><mrow><mi>j</mi><mo>∈</mo><mi>C</mi></mrow></munder>"
            "<msup><mi>z</mi><mo>′</mo></msup>",
            id="sum_{j in C} z'",
        ),
        ("mlm_weight * L_MLM", "<mi>mlm_weight</mi><mo>∗</mo><msub><mi>L</mi><mrow><mi>MLM</mi></mrow></msub>"),
        ("cos(u) <= alpha", "<mi>cos</mi><mo>(</mo><mi>u</mi><mo>)</mo><mo>≤</mo><mi>α</mi>"),
        (
            "each with a head",
            "<mtext>each\u00a0</mtext><mtext>with\u00a0</mtext><mtext>a\u00a0</mtext><mtext>head</mtext>",
        ),
        ("<b>&", "<mo>&lt;</mo><mi>b</mi><mo>&gt;</mo><mo>&amp;</mo>"),
    ],
)
def test_equations_become_mathml_by_hand(equation: str, expected: str) -> None:
    assert mathml_content(equation) == expected


def test_equations_are_split_into_lines_and_columns() -> None:
    assert typeset("f: ``features``") == typeset("f: features")  # backquotes are dropped
    assert [len(parts) for parts in typeset("C, N    l = 1   x: y\n  L = 2")] == [3, 1]


def test_nothing_is_lost_from_the_docstrings_of_objectives() -> None:
    """All letters and digits of every indented block are kept in order, and the MathML is well-formed."""
    found = 0
    for path in sorted((Path(__file__).parents[3] / "objectives").glob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        for block in re.findall(r"(?:^ {4}\S.*\n)+", docstring, re.MULTILINE):
            for line in block.splitlines():
                text = "".join(
                    "".join(ElementTree.fromstring(part).itertext()) for parts in typeset(line) for part in parts
                )
                plain = line.replace("sum", "").replace(" in C", " C")
                for name, letter in (("sigma", "σ"), ("alpha", "α"), ("tau", "τ")):
                    plain = plain.replace(name, letter)
                assert re.sub(r"[\W_]", "", text) == re.sub(r"[\W_]", "", plain)
                found += 1
    assert found > 10
