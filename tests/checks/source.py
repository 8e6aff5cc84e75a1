"""Checks that every source satisfies: the same examples twice, a stable split, the texts of the training part."""

from __future__ import annotations

from collections.abc import Callable

from data.sources.base import Source, normalise


def check_source(make: Callable[..., Source], *, rewrites: bool = True) -> None:
    """Checks a source that ``make`` constructs, given further arguments of ``Source``.

    Args:
        make: constructor; is called several times.
        rewrites: whether ``dev_fraction`` decides only about the parts, not about which examples there are.
    """
    source, again = make(), make()
    examples = list(source.read())
    assert examples and list(source.read()) == examples == list(again.read())
    assert source.fingerprint == again.fingerprint and source.texts_key() == again.texts_key()
    assert {"name", "where", "licence"} <= source.describe().keys()
    parts: dict[str, str] = {}
    for example in examples:
        assert len(example.texts) == source.columns and all(example.texts) and example.repeats >= 1
        assert example.texts == tuple(map(normalise, example.texts))
        assert example.label in (range(len(source.classes)) if source.classes else [-1])
        group = example.texts[0] if example.group is None else example.group
        assert parts.setdefault(group, source.assign_part(example)) == source.assign_part(example)
    train = [example for example in examples if source.assign_part(example) == "train"]
    for column in range(source.columns):
        texts = [example.texts[column] for example in train for _ in range(example.repeats)]
        assert list(source.texts(column)) == texts
    everything = [text for example in train for text in example.texts * example.repeats]
    assert list(source.texts(None)) == everything
    if rewrites:
        none, more = make(dev_fraction=0.0), make(dev_fraction=0.5)
        assert [example.texts for example in more.read()] == [example.texts for example in examples]
        held_out = [
            {example.texts for example in examples if one.assign_part(example) == "dev"}
            for one in (none, source, more)
        ]
        assert held_out[0] <= held_out[1] <= held_out[2]
        assert none.texts_key() != more.texts_key()
