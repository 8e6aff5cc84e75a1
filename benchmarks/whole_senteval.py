"""Measures all 28 tasks of SentEval at their published sizes, with a random encoder of roberta-base's shape.

    python benchmarks/whole_senteval.py [--data SENTEVAL] [--probing PROBING] [--device cpu|cuda] ...

SNLI's training pairs, the probing tasks (with the classes of the folder PROBING) and the captions are made up from
the words of SENTEVAL's text; both are SUITE_DATA's by default. Images are sums of two of 200 random vectors and
noise. Runs ``evaluate.py`` (in bf16 on a GPU) and prints the seconds of each task and of the whole program. The
files go into FOLDER (--folder): 2 GB and 9 GB of vectors. --share 0.002 --layers 1 tests the script in minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run directly, from anywhere

import numpy as np
import torch

from analysis.senteval.records import read_results
from analysis.senteval.tasks import TASKS
from benchmarks import harness
from data.randomness import generator
from data.tokenizer import train_bpe
from encoders.transformer import Transformer
from tests.analysis.senteval.small_data import write_captions

HERE = Path(__file__).resolve().parents[1]
PAIRS, PROBING, IMAGES = 549_367, (100_000, 10_000, 10_000), (113_287, 5_000, 5_000)
TOPICS, FEATURES, WORDS = 200, 2048, 1000  # WORDS: classes of WordContent


def sentences(rng: np.random.Generator, count: int, real: list[str]) -> list[str]:
    """Returns ``count`` sentences of random words, with the lengths and words of the ``real`` ones."""
    words = Counter(word for text in real for word in text.split())
    lengths = rng.choice([max(1, len(text.split())) for text in real], count)
    drawn = rng.choice(list(words), lengths.sum(), p=np.array([*words.values()]) / words.total()).tolist()
    ends = np.cumsum(lengths).tolist()
    return [" ".join(drawn[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make_data(real: Path, probing: Path, out: Path, share: float) -> list[str]:
    """Writes a SentEval folder; the tasks that are not made up are copied. Returns some of the text."""
    premises, hypotheses = (
        [line for part in ("train", "dev", "test") for line in (real / f"downstream/SNLI/{name}.{part}").open()]
        for name in ("s1", "s2")
    )
    (out / "downstream/SNLI").mkdir(parents=True)
    for folder in sorted((real / "downstream").iterdir()):
        if folder.is_dir() and folder.name not in ("SNLI", "COCO"):
            shutil.copytree(folder, out / "downstream" / folder.name)
    for file in TASKS["SNLI"].files:
        (out / "downstream" / file).write_bytes((real / "downstream" / file).read_bytes())
    count, rng = round(share * PAIRS), generator(1)
    three = sentences(rng, -(-count // 3), premises)  # a premise has three hypotheses
    write(out / "downstream/SNLI/s1.train", [three[i // 3] for i in range(count)])
    write(out / "downstream/SNLI/s2.train", sentences(rng, count, hypotheses))
    labels = ["entailment", "neutral", "contradiction"]
    write(out / "downstream/SNLI/labels.train", rng.choice(labels, count).tolist())
    for task in (task for task in TASKS.values() if task.group == "probing"):
        rows = [line.rstrip("\n").split("\t") for line in (probing / task.files[0]).open()]
        classes = sorted({label for _, label, _ in rows})
        named = task.name == "WordContent"  # by a word of the sentence
        if named:
            classes = [f"w{number}" for number in range(max(2, round(share * WORDS)))]
        sizes = [round(share * size) for size in PROBING]
        parts = np.repeat(["tr", "va", "te"], sizes).tolist()
        texts = sentences(rng, len(parts), [text for *_, text in rows])
        lines = []
        for number, (part, text) in enumerate(zip(parts, texts, strict=True)):
            label = classes[number % len(classes)]
            hint = f" {label}" if named or rng.random() < 1 / 3 else ""  # something to learn
            lines.append(f"{part}\t{label}\t{text}{hint}")
        write(out / "probing" / task.files[0], lines)
    topics = rng.standard_normal((TOPICS, FEATURES), dtype=np.float32)
    for file, size in zip(TASKS["ImageCaptionRetrieval"].files, IMAGES, strict=True):
        count = max(30, round(share * size))
        one, two = rng.integers(TOPICS, size=(2, count))
        images = topics[one] + topics[two] + 0.5 * rng.standard_normal((count, FEATURES), dtype=np.float32)
        texts = sentences(rng, 5 * count, premises)
        captions = [f"topic{one[i // 5]} {text} topic{two[i // 5]}" for i, text in enumerate(texts)]
        write_captions(out / "downstream" / file, images, captions)
    return [*premises, *hypotheses, *(text for *_, text in rows)]


def main() -> None:
    parser = harness.make_parser(__doc__, device="cpu")
    default = Path(os.environ["SUITE_DATA"]) / "senteval" if "SUITE_DATA" in os.environ else None
    parser.add_argument("--data", type=Path, default=default, required=default is None)
    probing = default and default / "probing_rebuilt"
    parser.add_argument("--probing", type=Path, default=probing, required=default is None)
    parser.add_argument("--folder", type=Path, default=Path("whole_senteval"), help="a new folder")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    device = options.device

    folder = options.folder.resolve()
    texts = make_data(options.data.expanduser(), options.probing.expanduser(), folder, options.share)
    torch.manual_seed(0)
    shape = harness.roberta_shape(options.layers, 768)
    encoder = Transformer(weights="random", shape=shape, tokenizer=train_bpe(texts, vocab_size=40_000))
    encoder.save(folder / "model", card="A random model.\n")
    keys = [f"model={folder / 'model'}", f"data={folder}", f"device={device}"]
    command = [sys.executable, str(HERE / "experiments/evaluate.py"), *keys]
    command.append(f"precision={'bf16' if device == 'cuda' else 'fp32'}")
    start = time.perf_counter()
    subprocess.run([*command, f"out={folder / 'results'}", f"cache={folder / 'cache'}"], check=True)
    seconds = time.perf_counter() - start
    tasks = read_results(folder / "results").tasks
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, torch {torch.__version__}, {options.share:.1%} of the published sizes\n")
    print("| task | seconds |\n| --- | --: |")
    for task, record in tasks.items():
        print(f"| {task} | {record.seconds:.1f} |")
    print(f"\n{len(tasks)} tasks in {seconds:.0f} s, from the start of the program to its end")


if __name__ == "__main__":
    main()
