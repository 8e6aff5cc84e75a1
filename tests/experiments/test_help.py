"""The text of ``--help``: all keys, their values and comments, and the choices of each group."""

from __future__ import annotations

from experiments.help import described


def test_help_shows_every_key_with_its_comment() -> None:
    text = described(["objective=mlm_only", "seed=7"], "run")
    lines = text.splitlines()
    assert "objective= conssent | conssent_mt | " in " ".join(text.split())
    assert "declutr/small" in text and "figure=" not in text and "_target_" not in text
    assert text.index("  weights: auto") < text.index("  checkpoint.every: null") < text.index("  objective.gap:")
    assert "  seed: 7" in text
    # A key of the YAML that mlm_only builds upon, and one of its own.
    assert any(line.startswith("  objective.anchors_per_document: 2   A; the anchors of") for line in lines)
    assert any(line.strip() == "objective.contrastive_weight: 0.0" for line in lines)
    assert max(map(len, lines)) <= 115


def test_help_of_evaluate_joins_comments_of_several_lines() -> None:
    text = " ".join(described([], "evaluate").split())
    assert "a model of the hub, bag_of_words (with encoder.vectors=), or random_vectors" in text
    assert "encoder.counts: null a text file to count words in" in text
