"""Settings of every evaluation: types, ranges, and what must be given together. Light to import."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field

from analysis.senteval.protocols import PROTOCOLS
from analysis.senteval.tasks import find
from data.display import nearest_model
from data.ranges import WIDEST, Below1, Count, Factor, Seed, SizeOrZero, Threads
from data.schema import require, require_path

ROOT = Path(__file__).resolve().parents[1]
BUNDLED = ROOT / "encoders" / "checkpoints"  # starts.CHECKPOINTS, without torch
FOLDS = 1000  # of cross-validation: each trains a classifier
WITHOUT_POOLING = ("bag_of_words", "random_vectors")  # names of models that have no pooling to choose
TREEBANK = "treebank"  # NLTK's sample of the Penn Treebank, in place of a folder of trees

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "tf32", "bf16"]
Pooling = Literal["mean", "cls", "max", "last", "pooler"]
WordVectors = Literal["table", "sentence"]
Probe = Literal["length", "content", "order", "passive", "tense", "tss"]
Classifier = Literal["logistic", "mlp"]
Paper = Literal["declutr", "declutr_v1", "conssent", "gensen"]
Value = TypeVar("Value")
OneOrMore = Annotated[list[Value], Field(min_length=1)]
Names = OneOrMore[str]


@dataclass(frozen=True, kw_only=True)
class CheckedSettings:
    """Settings that are checked when they are made; ``module`` has the function ``run`` that takes them."""

    module: ClassVar[str]

    def __post_init__(self) -> None:
        require(type(self), vars(self))

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """Makes the settings from a whole configuration."""
        return cls(**config)


@dataclass(frozen=True, kw_only=True)
class WordVectorSettings:
    """Settings of the model bag_of_words; ``encoders.bag_of_words.BagOfWords`` describes them."""

    vectors: str | None = None
    lowercase: bool = False
    weighting: Literal["none", "tfidf", "sif"] = "none"
    counts: str | None = None


@dataclass(frozen=True, kw_only=True)
class ModelOptions(CheckedSettings):
    """Options of the models that an evaluation opens.

    Attributes:
        pooling: name of the pooling; None: the model's own.
        layers: number of layers to keep, for a transformer; None: all.
        encoder: word vectors and their weights, for a bag of words.
        device: where models are computed.
        precision: precision of the encoder's products.
        cache: folder of sentence vectors, from the checkout if relative; None keeps none.
    """

    pooling: Pooling | None = None
    layers: SizeOrZero | None = None
    encoder: WordVectorSettings = field(default_factory=WordVectorSettings)
    device: Device = "auto"
    precision: Precision = "fp32"
    cache: str | None = ".cache"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        return cls(**{**config, "encoder": WordVectorSettings(**config.get("encoder", {}))})

    @property
    def vectors_cache(self) -> Path | None:
        """Folder of cached vectors; None if none are kept."""
        return None if self.cache is None else ROOT / self.cache / "vectors"

    def _check_models(self, models: Sequence[str], key: str) -> None:
        """Refuses models that do not exist and options that none of them takes; ``key`` names the models.

        Raises:
            ValueError: in one line.
        """
        for model in models:
            if Path(model).is_file():
                raise ValueError(
                    f"{key}={model} is a file: word vectors go by {key}=bag_of_words encoder.vectors=<file>."
                )
            if near := _meant(model):
                raise ValueError(f"{key}={model}: there is no such folder. Did you mean {near}?")
        require_path("encoder.vectors", self.encoder.vectors, "file")
        require_path("encoder.counts", self.encoder.counts, "file")
        if "bag_of_words" in models and self.encoder.vectors is None:
            raise ValueError(f"{key}=bag_of_words needs encoder.vectors=<file of word vectors>.")
        if self.encoder.weighting != "none" and self.encoder.counts is None:
            raise ValueError(
                f"encoder.weighting={self.encoder.weighting} needs encoder.counts=<text to count words in>, a "
                "sentence a line."
            )
        if models and all(model in WITHOUT_POOLING for model in models):
            if self.pooling is not None:
                raise ValueError(f"pooling={self.pooling}: {models[0]} has no other pooling than its own.")
            if self.layers is not None:
                raise ValueError(f"layers={self.layers}: {models[0]} has no layers.")
            if self.precision != "fp32":
                raise ValueError(f"precision={self.precision}: {models[0]} is computed in fp32 only.")
        if self.precision == "tf32" and self.device == "cpu":
            raise ValueError("precision=tf32 needs a CUDA GPU: use fp32 or bf16.")


def no_encoder(model: str) -> str:
    """Returns that ``model`` is a path that does not exist, in a line; "" if it exists or may be a hub name."""
    path = model.startswith(("/", ".", "~", "runs/")) or model.count("/") > 1
    return f"{model}: there is no such folder." if path and not Path(model).expanduser().exists() else ""


def near_run(folder: Path) -> str | None:
    """Returns the run folder beside ``folder`` whose name is closest; None if none is close."""
    runs = {run.parent.name for run in folder.parent.glob("*/config.yaml")}
    near = get_close_matches(folder.name, runs, 1, 0.8)
    return str(folder.parent / near[0]) if near else None


def _meant(model: str) -> str | None:
    """Returns the name or run folder that is close to ``model``, if that is neither one nor a folder.

    A name on the hub looks like a folder, so only the runs beside a folder are taken for close to it.
    """
    place = Path(model)
    names = {*WITHOUT_POOLING, *(folder.name for folder in BUNDLED.iterdir())}
    if not model or model in names or model.startswith("~") or place.is_dir():
        return None
    if len(place.parts) > 1:
        return near_run(place)
    return nearest_model(model, names)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(ModelOptions):
    """Settings of an evaluation on SentEval, or of the embedding of a file."""

    model: str = ""
    ensemble: list[str] | None = None
    data: str | None = None
    probing: str | None = None
    tasks: list[str] | None = None
    protocol: str = "default"
    hidden: Annotated[int, Field(ge=0, le=WIDEST)] | None = None
    dropout: Below1 | None = None
    folds: Annotated[int, Field(ge=2, le=FOLDS)] | None = None
    out: str | None = None
    embed: str | None = None
    threads: Threads | None = None
    processes: Threads | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol={self.protocol}: no such protocol. Available: {', '.join(PROTOCOLS)}.")
        if self.dropout and not (self.hidden or PROTOCOLS[self.protocol].classifier.hidden):
            raise ValueError("dropout needs a hidden layer: hidden=<units>.")
        if PROTOCOLS[self.protocol].poolings and (self.model in WITHOUT_POOLING or self.pooling is not None):
            raise ValueError(
                f"protocol={self.protocol} chooses among poolings: pooling=, and models of one pooling, do not go "
                "with it."
            )
        self._check_what()
        if self.embed is not None and not str(self.out).endswith(".npy"):
            raise ValueError("embed needs out=<file>.npy, where the vectors go.")
        self._check_models([self.model] * bool(self.model), "model")
        try:
            require_path("data", self.data, "folder")
            require_path("probing", self.probing, "folder")
            require_path("embed", self.embed, "file")
        except ValueError as error:
            raise ValueError(no_encoder(self.model) or str(error)) from None
        find(self.tasks)

    def _check_what(self) -> None:
        """Requires one model, or an ensemble of results, to which settings of a model do not apply."""
        if self.ensemble is None:
            if not self.model:
                raise ValueError("model is not set: model=declutr-mini, say, or a run folder; --help has more.")
            return
        if self.model:
            raise ValueError("model= and ensemble= exclude each other: an ensemble is made of finished results.")
        if len({os.path.realpath(one) for one in self.ensemble}) < max(2, len(self.ensemble)):
            raise ValueError(
                "ensemble must name two or more folders of results, each once, as in ensemble=[a,b]. "
                f"Got {self.ensemble} instead."
            )
        if self.out is None:
            raise ValueError("ensemble needs out=<folder>, where its results go.")
        alone = ("pooling", "layers", "data", "probing", "hidden", "dropout", "folds", "embed")
        if given := [key for key in alone if getattr(self, key) is not None]:
            raise ValueError(
                f"{', '.join(given)}: an ensemble is evaluated as its members were; only tasks= goes with it."
            )


@dataclass(frozen=True, kw_only=True)
class ModelsSettings(ModelOptions):
    """Settings of an evaluation of one or more models, each of which is opened with the same options."""

    models: Names

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_models(self.models, "models")


@dataclass(frozen=True, kw_only=True)
class PrintedSettings(ModelsSettings):
    """Settings of an evaluation that prints a table and writes a JSON file.

    Attributes:
        format: of what is printed.
        out: file to write the result to as JSON, too.
    """

    format: Literal["text", "md", "csv"] = "text"
    out: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProbesSettings(PrintedSettings):
    """Settings of the six probes."""

    module: ClassVar[str] = "analysis.probes"
    data: str
    probes: OneOrMore[Probe] | None = None
    words: WordVectors | None = None
    limit: Count | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data != TREEBANK and not Path(self.data).expanduser().is_dir():
            raise ValueError(f"data={self.data}: there is no such folder of trees; data={TREEBANK} is NLTK's.")


@dataclass(frozen=True, kw_only=True)
class QuoraSettings(PrintedSettings):
    """Settings of duplicate questions."""

    module: ClassVar[str] = "analysis.quora"
    data: str
    sizes: OneOrMore[Count | Literal["all"]] = field(default_factory=lambda: [1000, 5000, 10000, 25000, "all"])
    classifiers: OneOrMore[Classifier] = field(default_factory=lambda: ["logistic", "mlp"])
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_path("data", self.data, "folder")


@dataclass(frozen=True, kw_only=True)
class WordSimilaritySettings(PrintedSettings):
    """Settings of word similarity."""

    module: ClassVar[str] = "analysis.wordsim"
    data: str
    words: WordVectors | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_path("data", self.data, "folder")


@dataclass(frozen=True, kw_only=True)
class NeighboursSettings(PrintedSettings):
    """Settings of nearest neighbours."""

    module: ClassVar[str] = "analysis.neighbours"
    sentences: str
    queries: list[str] = field(default_factory=list)
    queries_file: str | None = None
    k: Count = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.queries and self.queries_file is None:
            raise ValueError("queries=[a sentence,another one] or queries_file=<file of them> must be given.")
        require_path("sentences", self.sentences, "file")
        require_path("queries_file", self.queries_file, "file")


@dataclass(frozen=True, kw_only=True)
class ProjectionMapSettings(ModelsSettings):
    """Settings of maps of labelled sentences."""

    module: ClassVar[str] = "analysis.projection_map"
    data: str
    labels: OneOrMore[str | int] | None = None
    sample: Count = 2000
    perplexity: Annotated[float, Field(ge=1)] = 30.0
    seed: Seed = 0
    folder: str = "maps"
    out: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_path("data", self.data, "file")


@dataclass(frozen=True, kw_only=True)
class MaskedLMSettings(CheckedSettings):
    """Settings of the held-out loss of masked language models."""

    module: ClassVar[str] = "analysis.masked_lm"
    models: Names
    corpora: dict[str, dict[str, Any]]
    probability: Factor = 0.15
    passages: Count = 1000
    device: Device = "auto"
    precision: Precision = "fp32"
    format: Literal["text", "md", "csv"] = "text"
    out: str | None = None

    @property
    def opened(self) -> ModelsSettings:
        """Models with the options that they are opened with."""
        return ModelsSettings(models=self.models, device=self.device, precision=self.precision, cache=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if headless := [model for model in self.models if model in WITHOUT_POOLING]:
            raise ValueError(f"{headless[0]} has no head for masked language modelling.")
        _ = self.opened  # checks the models
        if not self.corpora:
            raise ValueError("corpora must name one or more: 'corpora={books: {path: books.jsonl.gz}}'.")


@dataclass(frozen=True, kw_only=True)
class MTEBSettings(ModelsSettings):
    """Settings of MTEB's tasks."""

    module: ClassVar[str] = "analysis.mteb"
    tasks: Names | None = None
    benchmark: str | None = None
    out: str = "evaluations/mteb"

    def __post_init__(self) -> None:
        super().__post_init__()
        if find_spec("mteb") is None:
            raise ValueError("mteb is not installed: pip install -c requirements/constraints.txt -e '.[mteb]'")
        if (self.tasks is None) == (self.benchmark is None):
            raise ValueError("Either tasks=[STSBenchmark,STS16] or benchmark=<name> must be given.")


@dataclass(frozen=True, kw_only=True)
class HeldOutSettings(CheckedSettings):
    """Settings of the table of held-out scores."""

    module: ClassVar[str] = "analysis.held_out"
    runs: Names
    by: list[str] = field(default_factory=list)
    format: Literal["text", "md"] = "text"


@dataclass(frozen=True, kw_only=True)
class TableSettings(CheckedSettings):
    """Settings of the table of several results."""

    module: ClassVar[str] = "analysis.reporting.tables"
    results: Names
    papers: list[Paper] = field(default_factory=list)
    split: Literal["test", "dev"] = "test"
    tasks: list[str] | None = None
    by: list[str] = field(default_factory=list)
    mean: bool = False
    interval: bool = False
    against: str | None = None
    format: Literal["text", "md", "csv", "latex"] = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        find(self.tasks)
        if self.mean + self.interval + (self.against is not None) > 1:
            raise ValueError("mean, interval and against exclude each other.")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(CheckedSettings):
    """Settings of the ranking of a sweep's results."""

    module: ClassVar[str] = "analysis.reporting.ranking"
    results: Names
    by: list[str] = field(default_factory=lambda: ["objective.task"])
    top: Count = 1
    tasks: list[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        find(self.tasks)


@dataclass(frozen=True, kw_only=True)
class BootstrapSettings(CheckedSettings):
    """Settings of the paired bootstrap of two results."""

    module: ClassVar[str] = "analysis.reporting.bootstrap"
    results: Annotated[list[str], Field(min_length=1)]
    tasks: list[str] | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        find(self.tasks)


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(CheckedSettings):
    """Settings of the download of SentEval's data."""

    module: ClassVar[str] = "analysis.senteval.files.download"
    folder: str = "senteval"


# Every evaluation but SentEval's, by the name that evaluate.py takes.
EVALUATIONS: dict[str, type[CheckedSettings]] = {
    "probes": ProbesSettings,
    "wordsim": WordSimilaritySettings,
    "quora": QuoraSettings,
    "neighbours": NeighboursSettings,
    "projection_map": ProjectionMapSettings,
    "masked_lm": MaskedLMSettings,
    "mteb": MTEBSettings,
    "held_out": HeldOutSettings,
    "table": TableSettings,
    "bootstrap": BootstrapSettings,
    "ranking": RankingSettings,
    "download": DownloadSettings,
}
