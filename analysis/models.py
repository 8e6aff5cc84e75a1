"""Models to evaluate, opened by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pkgutil import resolve_name
from typing import Annotated, Any, Literal, TypedDict, Unpack

import numpy as np
import torch

import encoders
from analysis.model_names import CONFIG, model_name, run_folder, split_members
from analysis.senteval.vectors import CHUNK, CheckedEncoder, Vectors, embed
from data.display import bar
from data.errors import UserError, reading
from data.files import read_yaml
from data.ranges import Count, ExpandedPath, SizeOrZero
from data.sources.base import Source
from data.sources.reading import stripped_lines
from data.vectors import WordVectors
from encoders.base import Encoder
from encoders.kernels import Precision
from encoders.postprocess import FITTED_SENTENCES, Kind, postprocess, training_sentences
from encoders.random_vectors import RandomVectors
from encoders.word_weights import Weighting


@dataclass(kw_only=True)
class BagSettings:
    """Settings of the model bag_of_words; ``encoders.bag_of_words.BagOfWords`` describes them."""

    vectors: str | None = None
    lowercase: bool = False
    weighting: Weighting = "none"
    counts: str | None = None


@dataclass(kw_only=True)
class Fit:
    """Settings of ``postprocess``; ``encoders.postprocess`` describes them."""

    text: str | None = None
    sentences: Count = FITTED_SENTENCES
    dimensions: Count | None = None
    components: Count | None = None


class ModelOptions(TypedDict, total=False):
    """Options of all evaluations that open models.

    Attributes:
        pooling: pooling of token states (mean, cls, max or last; of transformers also first_last and pooler);
            default: the model's own.
        layers: number of a transformer's first layers to use (0: embeddings only); default: all.
        encoder: word vectors for bag_of_words: encoder.vectors (a text file), encoder.lowercase, encoder.weighting
            (none, or sif, which needs encoder.counts, a text file to count words in).
        postprocess: linear map of the vectors: none (the default), center, all_but_the_top or whiten.
        fit: what it is fitted on: fit.text (a text file, a sentence a line; default: the run's corpus),
            fit.sentences (4000), fit.dimensions (the first ones of whiten; default: all), fit.components (removed
            by all_but_the_top; default: one in a hundred).
        expand: a file of word vectors whose words a recurrent encoder also gets (``encoders.expansion``).
        device: device of encoders and classifiers: auto (the default), cpu, cuda or mps.
        precision: of matrix products: fp32 (the default), or on GPUs the faster tf32 or bf16.
    """

    pooling: Literal["mean", "cls", "max", "last", "first_last", "pooler"] | None
    layers: SizeOrZero | None
    encoder: Annotated[Mapping[str, Any], BagSettings]
    postprocess: Kind
    fit: Annotated[Mapping[str, Any], Fit]
    expand: str | None
    device: Literal["auto", "cpu", "cuda", "mps"]
    precision: Precision


@dataclass
class Model:
    """An encoder with its name in tables.

    Attributes:
        name: name in tables.
        encoder: encoder of sentences.
    """

    name: str
    encoder: Encoder | RandomVectors

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Embeds ``sentences``, each distinct one once, and shows the progress.

        Raises:
            UserError: if a vector is not finite.
        """
        with bar(f"embedding, {self.name}") as progress:
            return embed(CheckedEncoder(self.encoder, CHUNK), sentences, progress=progress)

    def rows(self, sentences: Sequence[str]) -> np.ndarray:
        """Returns vectors of ``sentences``, float32 of shape (n, D), in memory; raises as ``vectors`` does."""
        return self.vectors(sentences).rows(sentences)


def open_models(models: Sequence[str], **options: Unpack[ModelOptions]) -> Iterator[Model]:
    """Opens each of ``models`` when it is reached.

    Raises:
        UserError: if one cannot be opened.
    """
    for model in models:
        yield Model(model_name(model, **options), open_encoder(model, **options))


def open_encoder(model: str, **options: Unpack[ModelOptions]) -> Encoder | RandomVectors:
    """Opens an encoder in eval mode.

    Args:
        model: folder of a run or an encoder, name of a bundled checkpoint or a model of the hub, "bag_of_words" or
            "random_vectors"; "a+b" concatenates the vectors of models a and b.
        options: see ``ModelOptions``; a baseline ignores those that it does not have.

    Raises:
        UserError: if it cannot be opened.
    """
    from encoders.bag_of_words import BagOfWords  # late, with transformers, which takes seconds to import
    from encoders.concatenated import Concatenated
    from encoders.expansion import expand

    device = resolve_device(options.get("device"))
    with reading("encoder", model):
        if model == "random_vectors":
            return RandomVectors()
        if (kind := options.pop("postprocess", "none")) != "none":
            encoder: Any = open_encoder(model, **options)
            return fit_map(encoder, kind, Fit(**options.get("fit", {})), model)
        if model == "bag_of_words":
            return BagOfWords(**options.get("encoder", {})).to(device)
        if len(members := split_members(model)) > 1:
            return Concatenated([open_encoder(member, **options) for member in members])  # type: ignore[misc]
        encoder = encoders.load(
            model,
            pooling=options.get("pooling"),
            layers=options.get("layers"),
            device=device,
            precision=options.get("precision", "fp32"),
        ).eval()
        file = options.get("expand")
        return expand(encoder, WordVectors(file), file) if file else encoder


def fit_map(encoder: Encoder, kind: Kind, settings: Fit, model: str) -> Encoder:
    """Returns an encoder followed by a map that is fitted on a file or on the corpus of its run.

    Args:
        encoder: the encoder.
        kind: of the map.
        settings: the text, and how the map is fitted.
        model: name of the model, as in ``open_encoder``.

    Raises:
        UserError: if there is no text, it cannot be read, or it has too few sentences.
    """
    if settings.text is not None:
        where, sentences = settings.text, [*islice(stripped_lines(settings.text), settings.sentences)]
    elif (run := run_folder(split_members(model)[0])) is None:
        raise UserError("not set, and only runs have a corpus", key="fit.text")
    else:
        with reading("run", run):
            node = read_yaml(run / CONFIG)["corpus"]
            target = node.pop("_target_")
            source: Any = resolve_name(target) if target.startswith("data.sources.") else object
            if not issubclass(source, Source):
                raise TypeError(f"{target} is no source")
            where, sentences = f"the corpus of {run}", training_sentences(source(**node), settings.sentences)
    dimensions, components = settings.dimensions, settings.components
    return postprocess(encoder, sentences, kind, where=where, dimensions=dimensions, components=components)


def resolve_device(device: str | None) -> str:
    """Returns the name of a device; "auto" and None: "cuda" if there is one, else "cpu".

    Raises:
        UserError: if there is no CUDA GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("this machine has no CUDA GPU", key="device")
    return device if device not in (None, "auto") else "cuda" if torch.cuda.is_available() else "cpu"


def export_encoder(*, model: str, out: ExpandedPath, **options: Unpack[ModelOptions]) -> None:
    """Writes an encoder as a folder that this suite opens, and sentence-transformers if it has its form.

    Args:
        model: name of a model, as in ``open_encoder``.
        out: a new folder, or an encoder's folder to be replaced.
        options: see ``analysis.models.ModelOptions``.

    Raises:
        UserError: if the model cannot be opened or saved, or ``out`` is something else, the encoder of a run, say.
    """
    from encoders.card import model_card  # late, as jinja2 takes its time

    if run_folder(out):
        raise UserError("belongs to a run", key=f"out={out}")
    with reading("encoder that can be saved", model):
        encoder: Any = open_encoder(model, **options)
        encoder.save(out, model_card(title=model_name(model, **options), encoder=encoder))
    print(out)
