"""An encoder's folder, as sentence-transformers and transformers open it.

config.json, model.safetensors, tokenizer*.json           transformers
modules.json, 1_Pooling/, 2_Dense/, 3_Normalize/, ...     sentence-transformers
encoder.json, mlm_head.safetensors                        this suite: class, origin, MLM head
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from data.errors import UserError
from data.files import read_json, write_json
from encoders.pooling import POOLINGS

if TYPE_CHECKING:
    from encoders.recurrent import Recurrent

_MODULES = ("Transformer", "Pooling", "Dense", "Normalize")  # in the order of their application
_TOKENIZER = "sentence_transformers.models.tokenizer.TransformersTokenizerWrapper"
# sentence_<name>_config.json holds the limits; older sentence-transformers name it after the architecture.
_LIMITS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_UNSUPPORTED = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens")
Empty = Annotated[dict[str, Any], Field(max_length=0)]  # settings that are not supported must be empty


@dataclass
class Module:
    """Keys of a module in ``modules.json``."""

    type: Annotated[str, Field(pattern=r"^sentence_transformers\.")]
    path: str


@dataclass
class Limits:
    """Keys of ``sentence_bert_config.json`` and the like."""

    max_seq_length: Annotated[int, Field(ge=1)] | None = None
    do_lower_case: bool | None = None
    config_args: Empty | None = None
    config_kwargs: Empty | None = None
    tokenizer_args: Empty | None = None
    tokenizer_kwargs: Empty | None = None
    processor_kwargs: Empty | None = None


@dataclass
class Prompts:
    """Keys of ``config_sentence_transformers.json``."""

    model_type: Literal["SentenceTransformer"] | None = None
    truncate_dim: None = None
    prompts: dict[str, str | None] | None = None
    default_prompt_name: str | None = None


@dataclass
class PoolingModes:
    """Keys of a pooling module's ``config.json``."""

    pooling_mode: str | list[str] | None = None


class Layout(NamedTuple):
    """Contents of a folder besides the transformer itself.

    Attributes:
        transformer: folder of the transformer's own files.
        pooling: "mean", "cls", "max" or "last"; None if the folder has no pooling.
        dense: folders of the linear maps that follow the pooling, in their order.
        normalize: whether vectors are scaled to length 1 at the end.
        max_length: longest input in tokens, or None.
        lowercase: whether text is lower-cased before the tokenizer normalises it.
    """

    transformer: Path
    pooling: str | None = None
    dense: tuple[Path, ...] = ()
    normalize: bool = False
    max_length: int | None = None
    lowercase: bool = False


def read_layout(folder: Path) -> Layout:
    """Reads a model's folder, of sentence-transformers or a plain one of transformers.

    Raises:
        UserError: if it holds an unsupported module, or modules in an unsupported order.
    """
    if not (folder / "modules.json").is_file():
        return Layout(folder)
    transformer, pooling, normalize = folder, None, False
    dense: list[Path] = []
    modules = read_json(folder / "modules.json", list[Module])
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    for kind, module in zip(kinds, modules, strict=True):
        subfolder = folder / module["path"]
        if kind == "Transformer":
            transformer = subfolder
        elif kind == "Pooling":
            pooling = _read_pooling(subfolder / "config.json")
        elif kind == "Dense":
            dense.append(subfolder)
        elif kind == "Normalize":
            normalize = True
        else:
            raise UserError(f"module {kind} is none of {', '.join(_MODULES)}", key=str(folder))
    single = all(kinds.count(kind) == 1 for kind in ("Transformer", "Pooling"))
    if not single or kinds != sorted(kinds, key=_MODULES.index):
        raise UserError(f"modules {', '.join(kinds)}, not {', '.join(_MODULES)}", key=str(folder))
    paths = [path for name in _LIMITS if (path := transformer / f"sentence_{name}_config.json").is_file()]
    own = read_json(paths[0], Limits) if paths else {}
    path = folder / "config_sentence_transformers.json"
    prompts = read_json(path, Prompts) if path.is_file() else {}
    if (name := prompts.get("default_prompt_name")) and (prompts.get("prompts") or {}).get(name) != "":
        raise UserError("puts a prompt before each sentence, which is not supported", key=str(folder))
    return Layout(
        transformer,
        pooling,
        tuple(dense),
        normalize,
        own.get("max_seq_length"),
        bool(own.get("do_lower_case")),
    )


def _read_pooling(path: Path) -> str:
    config = read_json(path, PoolingModes)
    modes = config.get("pooling_mode")
    if modes is None:
        keys = [*(known.key for known in POOLINGS.values()), *_UNSUPPORTED]
        modes = [key for key in keys if config.get(key)] or ["mean"]
    modes = [modes] if isinstance(modes, str) else list(modes)
    found = [name for name, known in POOLINGS.items() if modes[:1] and modes[0] in (known.name, known.key)]
    if len(modes) != 1 or not found:
        raise UserError(f"pooling {', '.join(modes)} is none of {', '.join(POOLINGS)}", key=str(path))
    return found[0]


def write_layout(folder: Path, layout: Layout, dimension: int, model_arguments: Mapping[str, Any]) -> list[Path]:
    """Writes sentence-transformers' files beside those of a transformer.

    Args:
        folder: of the transformer.
        layout: what follows the transformer; of ``dense`` only the number counts.
        dimension: width of the transformer's states.
        model_arguments: go to the model's constructor when sentence-transformers opens the folder.

    Returns:
        The folders that the linear maps are to be written to.
    """
    kinds = ["Pooling", *("Dense" for _ in layout.dense), *(["Normalize"] if layout.normalize else [])]
    names = [(f"{place}_{kind}", kind) for place, kind in enumerate(kinds, start=1)]
    write_modules(folder, [("", "Transformer"), *names])
    write_pooling(folder / names[0][0], layout.pooling or "mean", dimension)
    if layout.normalize:
        (folder / names[-1][0]).mkdir()
        write_json(folder / names[-1][0] / "config.json", {})
    own = {"max_seq_length": layout.max_length, "do_lower_case": layout.lowercase}
    write_json(
        folder / "sentence_bert_config.json",
        own | ({"model_args": dict(model_arguments)} if model_arguments else {}),
    )
    return [folder / path for path, kind in names if kind == "Dense"]


def write_pooling(folder: Path, pooling: str, dimension: int) -> None:
    """Writes sentence-transformers' pooling of states of ``dimension`` into a new ``folder``."""
    folder.mkdir()
    modes = {known.key: pooling == name for name, known in POOLINGS.items()}
    write_json(folder / "config.json", {"word_embedding_dimension": dimension, **modes})


def write_lstm(folder: Path, encoder: Recurrent, pooling: str) -> None:
    """Writes sentence-transformers' files of an LSTM over word vectors whose states are pooled."""
    write_modules(folder, [("", "WordEmbeddings"), (encoder.network, "LSTM"), ("2_Pooling", "Pooling")])
    words = {
        "tokenizer_class": _TOKENIZER,
        "update_embeddings": encoder.embedding.weight.requires_grad,
        "max_seq_length": encoder.format.max_length,
    }
    write_json(folder / "wordembedding_config.json", words)
    shape = encoder.shape
    layers = {
        "word_embedding_dimension": shape.word_size,
        "hidden_dim": shape.hidden,
        "num_layers": shape.layers,
        "dropout": encoder.dropout.p if shape.layers > 1 else 0,
        "bidirectional": shape.bidirectional,
    }
    write_json(folder / encoder.network / "lstm_config.json", layers)
    write_pooling(folder / "2_Pooling", pooling, encoder.dimension)


def write_modules(folder: Path, modules: Sequence[tuple[str, str]]) -> None:
    """Writes the list of ``modules``, by folder and class, that sentence-transformers reads first."""
    entries = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(modules)
    ]
    write_json(folder / "modules.json", entries)
    write_json(
        folder / "config_sentence_transformers.json",
        {
            "model_type": "SentenceTransformer",
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
    )
