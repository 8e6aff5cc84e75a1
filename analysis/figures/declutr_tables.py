"""Tables of DeCLUTR (Giorgi et al. 2021, ACL).

python experiments/reproduce.py figure=declutr/table2 budget=teaching vectors=<file of word vectors>
"""

from __future__ import annotations

from typing import Any

from analysis.figures import examples
from analysis.figures.claims import Check, about_equal, above, all_of, at_most
from analysis.figures.declutr import DISTILROBERTA, DOWNSTREAM, PAPER, ROBERTA
from analysis.figures.exhibits import VECTORS, Grid, Table, Value
from analysis.figures.verdicts import Claim
from analysis.senteval.records import PROBING

QUICK_PROBING = ("Length", "WordContent", "BigramShift", "SubjNumber")

TABLE_1 = Table(
    id="declutr/table1",
    title="DeCLUTR, table 1: trainable parameters and embedding dimensions",
    printed_paper="declutr",
    printed="declutr_table1",
    sizes={
        "DeCLUTR-small": ("distilroberta-base", 50265, 514),
        "DeCLUTR-base": ("roberta-base", 50265, 514),
        "bundled": "bundled",
    },
    note="Ours with the masked-language-model head, which shares its weights with the word embeddings.",
    departures=["The other models of the table are shown as printed."],
)

# Transformer: the encoder that training starts from, after one step at a learning rate that moves nothing.
UNTRAINED = ("budget.steps=1", "optimizer.lr=1.0e-12")
WORD_VECTORS = Value(
    "word vectors",
    ["objective=contrastive_only", "encoder=bag_of_words", f"encoder.vectors={VECTORS}", *UNTRAINED],
    share=0,
    other_encoder=True,
)
TABLE_2_ROWS = dict[str, Any](
    teaching=Grid(
        {
            "row": [
                WORD_VECTORS,
                Value("Transformer", ["objective=declutr", *UNTRAINED, "encoder=bundled"], share=0),
                Value("DeCLUTR", ["objective=declutr", "encoder=bundled"]),
            ]
        },
        seeds=[1, 2, 3],
        flops=5.0e13,
        evaluation=240,
    ),
    paper=Grid(
        {
            "row": [
                WORD_VECTORS,
                Value("Transformer-small", ["objective=declutr", *UNTRAINED, *DISTILROBERTA], share=0),
                Value("Transformer-base", ["objective=declutr", *UNTRAINED, *ROBERTA], share=0),
                Value("DeCLUTR-small", ["objective=declutr", *DISTILROBERTA]),
                Value("DeCLUTR-base", ["objective=declutr", *ROBERTA], share=2),
            ]
        },
        **PAPER,
    ),
)


def near_start(size: str) -> Check:
    """Claims that a trained encoder is within a point of its start on average over probing tasks."""
    return lambda scores: about_equal(
        scores(panel="probing", group=f"DeCLUTR{size}"),
        scores(panel="probing", group=f"Transformer{size}"),
        margin=1.0,
    )


TABLE_2 = Table(
    id="declutr/table2",
    title="DeCLUTR, table 2: downstream tasks",
    printed_paper="declutr",
    **TABLE_2_ROWS,
    tasks=DOWNSTREAM,
    scores={"downstream": "declutr_downstream"},
    claims=[
        Claim(id, text, "5.1", above("downstream", f"DeCLUTR{size}", f"Transformer{size}"))
        for id, text, size in (
            (
                "above_start",
                "average downstream performance is above that of the transformer that training begins with",
                "",
            ),
            (
                "small_above_start",
                "a large boost in average downstream performance: DeCLUTR-small (+4 %)",
                "-small",
            ),
            ("base_above_start", "a large boost in average downstream performance: DeCLUTR-base (+6 %)", "-base"),
        )
    ],
    departures=[
        "InferSent, USE, Sentence Transformers and QuickThoughts are shown as printed only (conssent/table2 "
        "trains an InferSent)."
    ],
)

TABLE_3 = Table(
    id="declutr/table3",
    title="DeCLUTR, table 3: probing tasks",
    printed_paper="declutr",
    **TABLE_2_ROWS,
    columns=PROBING,
    tasks=QUICK_PROBING,
    scores={"probing": "probing"},
    claims=[
        Claim(id, text, "5.1", near_start(size))
        for id, text, size in (
            (
                "probing_kept",
                "average probing performance is comparable to that of the transformer that training begins with",
                "",
            ),
            (
                "small_kept",
                "DeCLUTR-small performs comparably to the underlying pretrained model on average",
                "-small",
            ),
            (
                "base_kept",
                "DeCLUTR-base performs comparably to the underlying pretrained model on average",
                "-base",
            ),
        )
    ],
    departures=["InferSent, USE and Sentence Transformers are shown as printed only."],
)


# Table 4: one run is evaluated with each pooling, which enters none of these losses. The authors' script took the
# pooler's output for CLS; their configuration names the last state.
def poolings(model: str, overrides: list[str], poolers: str, share: float = 1.0) -> list[Value]:
    """Returns a row for each pooling of one run."""
    return [
        Value(f"{model}-{'CLS' if pooling == 'cls' else pooling}", overrides, pooling=pooling, share=share)
        for pooling in poolers.split()
    ]


TABLE_4_ROWS = dict[str, Any](
    teaching=Grid(
        {
            "row": [
                WORD_VECTORS,
                *poolings("NSP", ["objective=nsp", "encoder=bundled"], "cls mean pooler"),
                *poolings("SOP", ["objective=sop", "encoder=bundled"], "cls mean pooler"),
                *poolings("MLM", ["objective=mlm_only", "encoder=bundled"], "cls mean"),
            ]
        },
        seeds=[1, 2, 3],
        base=["budget.tokens=7.5e+5"],
        flops=1.7e13,  # what so many tokens take at most
        evaluation=120,
    ),
    paper=Grid(
        {
            "row": [
                WORD_VECTORS,
                *(
                    row
                    for model, objective, encoder, poolers in (
                        ("BERT-base", "nsp", "bert-base-uncased", "cls mean pooler"),
                        ("ALBERT-base-V2", "sop", "albert-base-v2", "cls mean pooler"),
                        ("RoBERTa-base", "mlm_only", "roberta-base", "cls mean"),
                    )
                    for row in poolings(
                        model,
                        [f"objective={objective}", *UNTRAINED, f"encoder={encoder}", "weights=pretrained"],
                        poolers,
                        share=0,
                    )
                ),
            ]
        },
        evaluation=7200,
    ),
)
TABLE_4 = Table(
    id="declutr/table4",
    title="DeCLUTR, table 4: sentence losses of pretrained transformers, CLS and mean pooling",
    printed_paper="declutr",
    split="dev",
    **TABLE_4_ROWS,
    tasks=DOWNSTREAM,
    scores={"downstream": "declutr_downstream_dev"},
    claims=[
        Claim(
            "mean_above_cls",
            "pooling token embeddings via averaging outperforms pooling via the CLS token",
            "appendix A",
            lambda scores: all_of(
                *(above("downstream", f"{name}-mean", f"{name}-CLS")(scores) for name in ("NSP", "SOP", "MLM"))
            ),
        ),
        Claim(
            "sentence_losses_no_better",
            "CLS embeddings of models trained with NSP or SOP do not outperform those of a model trained with "
            "neither",
            "appendix A",
            lambda scores: at_most(
                scores(panel="downstream", group=["NSP-CLS", "SOP-CLS"]),
                scores(panel="downstream", group="MLM-CLS"),
                each="group",
            ),
        ),
        Claim(
            "sometimes_below_words",
            "CLS embeddings of models trained with NSP or SOP sometimes do not outperform a bag of words",
            "appendix A",
            reason="one that does not is enough; the table has its row and that of word vectors",
        ),
    ],
    departures=[
        "The paper evaluates published BERT (NSP), ALBERT (SOP) and RoBERTa (neither). At teaching size the rows "
        "are small transformers trained here, over as many tokens; the rows MLM read spans of long documents, "
        "in smaller batches and so in more updates, NSP and SOP pairs of segments.",
        "At teaching size probing, half of the printed table, is not evaluated (tasks=[Length, ..] does), nor "
        "are the larger downstream tasks.",
        "At the paper's size each row is one published model, without seeds: rows stand beside the printed ones, "
        "and no claim is decided.",
    ],
)

TABLE_5 = Table(
    id="declutr/table5",
    title="DeCLUTR, table 5: sampled spans",
    printed_paper="declutr",
    examples=examples.spans,
    base=["objective=declutr"],
)

EXHIBITS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5)
