"""What a report costs: from a cold start, one study after another, and as a list.

    python benchmarks/inference.py [--json FILE] [--quick]

Drawn studies of two JPEG images of 2544 x 3056 pixels, as MIMIC-CXR-JPG has them; an EfficientNet-Lite0 at 256 pixels
and the demo's decoder, both untrained, and 2,000 phrases of random vectors, of which about seven are retrieved an
image. Beside rarrg stands ``plain_inference.py``: PIL, timm and a numpy matmul over the same networks and vectors, as
one would write them for oneself. Cold figures are of whole processes, their files in the page cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import cycle, islice, product
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
import timm
import torch
from PIL import Image
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, alternate, arguments, finish, measurement, spread
from benchmarks.plain_inference import Plain
from rarrg.config import EncoderConfig, RetrieverConfig
from rarrg.data.images import read_image
from rarrg.data.phantom import draw_studies
from rarrg.llm_config import LLMConfig
from rarrg.memory import keep_freed_memory
from rarrg.models.model_folder import ModelInfo
from rarrg.models.retriever import PhraseRetriever, select_queries
from rarrg.models.timm_networks import save_timm
from rarrg.models.vision import load_fused
from rarrg.pipeline import ReportGenerator
from rarrg.report.as_json import report_to_json
from rarrg.report.study import StudyRetrieval, by_view
from rarrg.store.phrase_store import PhraseStore, StoredPhrase
from rarrg.study_stages import look_each
from rarrg.types import Position
from rarrg.writer_config import WriterConfig
from tests.llm.scripted_server import MODEL, scripted_server

ROOT = Path(__file__).resolve().parents[1]
SHAPE = (2544, 3056)
SIZE, DIM, RETRIEVED = 256, 384, 7
REPLY = 0.25
"""Seconds that the scripted language model takes."""

Pair = tuple[Path, Path]
Result = TypeVar("Result")

SIZES = "tiny small moderate large new old stable possible".split()
SIDES = "left right bilateral left-sided right-sided".split()
PLACES = "upper middle lower basal apical perihilar retrocardiac lateral medial central".split()
FINDINGS = ("opacity", "effusion", "atelectasis", "nodule", "consolidation")


def write_pairs(folder: Path, count: int) -> list[Pair]:
    """Drawn studies at a radiograph's size, with grain that costs a decoder what film's does."""
    grain = np.random.default_rng(0)
    pairs = []
    for study in draw_studies(folder, count, 0):
        files = []
        for view in study.views:
            drawn = np.asarray(Image.open(view.path).convert("L").resize(SHAPE))
            noisy = drawn + grain.normal(0, 5, drawn.shape)
            files.append(view.path.with_suffix(".jpg"))
            Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(files[-1], quality=95)
        pairs.append((files[0], files[1]))
    return pairs


def write_model(folder: Path, pairs: Sequence[Pair]) -> Path:
    """A model folder, and for the plain script the phrases' vectors."""
    torch.manual_seed(0)
    (folder / "encoder").mkdir(parents=True)
    save_timm(timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0), folder / "encoder")
    fused = load_fused([EncoderConfig(str(folder / "encoder"), SIZE)])
    config = RetrieverConfig(queries=50, layers=3, dim=256, heads=8, feedforward=1024, position="sine2d", anchors=True)
    retriever = PhraseRetriever(fused.channels_of, DIM, config).eval()
    # Untrained queries are all alike: these two tell them apart.
    retriever.set_anchors(F.normalize(torch.randn(config.queries, DIM), dim=1))
    retriever.set_offset(torch.randn(config.queries))
    with torch.inference_mode():
        pixels = torch.stack([fused.preprocess(read_image(path))[0] for pair in pairs[:4] for path in pair])
        probabilities = retriever(fused([pixels])).logits.sigmoid()
    threshold = float(probabilities.quantile(1 - RETRIEVED / config.queries))
    text = {"encoder": "none", "revision": None, "dim": DIM, "fingerprint": "0" * 16}
    info = ModelInfo(asdict(config), fused.channels_of, DIM, fused.references(), text, threshold)
    retriever.save_pretrained(folder / "model", info)
    phrases = [" ".join(words) for words in product(SIZES, SIDES, PLACES, FINDINGS)]
    vectors = np.random.default_rng(0).normal(size=(len(phrases), DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store = PhraseStore.build([StoredPhrase(phrase, 1) for phrase in phrases], vectors, text, credentialed=False)
    store.save(folder / "model" / "store")
    np.save(folder / "vectors.npy", vectors)
    (folder / "phrases.txt").write_text("\n".join(phrases))
    return folder / "model"


LOADED = "import torch and timm, load the weights into the encoder"


def cold(model: Path, pair: Pair, repeats: int) -> tuple[Table, list[Goal]]:
    """Seconds of whole processes."""
    frontal, lateral = map(str, pair)
    encoder, weights = model.parent / "encoder", model / "model.safetensors"
    read = f"load_file({str(weights)!r})"
    build = f"timm.create_model('local-dir:{encoder}', pretrained=True, num_classes=0)"
    raw = f"import torch; from safetensors.torch import load_file; {read}; load_file('{encoder}/model.safetensors')"
    plain = [str(ROOT / "benchmarks" / "plain_inference.py"), str(model), str(model.parent), frontal, lateral]
    words = {
        "python": ["-c", "pass"],
        "rarrg --help": ["-m", "rarrg", "--help"],
        "import torch": ["-c", "import torch"],
        "import torch, read the weights": ["-c", raw],
        LOADED: [
            "-c",
            f"import torch, timm; from safetensors.torch import load_file; {read}; {build}",
        ],
        "plain script": plain,
        "infer.py": [str(ROOT / "infer.py"), "--frontal", frontal, "--lateral", lateral, "--model", str(model)],
    }

    def run(arguments: Sequence[str]) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)

    # Not warmed up: this process has read the files, and a median of three passes over a slow first one.
    seconds = alternate({name: run(arguments) for name, arguments in words.items()}, repeats, warm=0)
    floor, loaded = seconds["import torch, read the weights"].median, seconds[LOADED].median
    rows = [(name, spread(each, "s"), f"{each.median / floor:.2f}") for name, each in seconds.items()]
    ours, usage = seconds["infer.py"].median, seconds["rarrg --help"].median
    goals = [
        Goal(
            "cold report: at most 1.5 times importing torch and reading the weights", rows[-1][2], ours <= 1.5 * floor
        ),
        Goal(
            "cold report: at most 1.5 times importing torch and timm and loading the weights into timm's network",
            f"{ours / loaded:.2f}",
            ours <= 1.5 * loaded,
        ),
        Goal("rarrg --help: under 0.5 s", f"{usage:.2f} s", usage < 0.5),
    ]
    note = (
        "timm imports torchvision, which imports torch's compiler, and W&B where it is installed, which infer.py keeps "
        "from it."
    )
    return Table("A process for one study", ("", "s", "of torch and weights"), rows, note), goals


def timed(seconds: dict[str, list[float]], stage: str, call: Callable[[], Result]) -> Result:
    """Add what a call takes to its stage."""
    start = perf_counter()
    result = call()
    seconds.setdefault(stage, []).append(perf_counter() - start)
    return result


@torch.inference_mode()
def stages(generator: ReportGenerator, pair: Pair, seconds: dict[str, list[float]]) -> None:
    """Time the stages of a study one by one."""
    views: list[tuple[Position, str]] = [("frontal", str(pair[0])), ("lateral", str(pair[1]))]
    images = timed(seconds, "decode images", lambda: [read_image(path) for path in pair])
    resized = timed(seconds, "resize", lambda: [generator.encoder.resize(image) for image in images])
    features = timed(seconds, "encode", lambda: generator.encode(resized))
    output = generator.retriever(features)
    timed(seconds, "decode queries", lambda: generator.retriever(features))
    chosen = output.embeddings[select_queries(output.logits, generator.threshold)].numpy()
    timed(seconds, "search", lambda: generator.store.search(chosen))
    found = generator.retrieve_features(features, studies=[0, 0])

    def resolve() -> StudyRetrieval:
        return generator.resolved(
            by_view([(view, path, each) for (view, path), each in zip(views, found, strict=True)])
        )

    study = timed(seconds, "resolve", resolve)
    timed(seconds, "write", lambda: json.dumps(report_to_json(next(generator.write([("", study)]))[1])))


def report_line(generator: ReportGenerator, pair: Pair) -> str:
    """A study's report as it stands in a file of many."""
    return json.dumps(report_to_json(generator(*pair)))


def warm(generator: ReportGenerator, plain: Plain, pairs: Sequence[Pair], studies: int) -> tuple[list[Table], Goal]:
    """Latency of one study after another, and where it goes."""
    seconds: dict[str, list[float]] = {}
    of_stage: dict[str, list[float]] = {}
    for number, pair in enumerate(islice(cycle(pairs), studies + 2)):
        if number == 2:  # the first two warm up
            seconds, of_stage = {}, {}
        timed(seconds, "rarrg", partial(report_line, generator, pair))
        timed(seconds, "plain", partial(plain, pair))
        stages(generator, pair, of_stage)
    rows = []
    for name, each in seconds.items():
        p50, p99 = np.percentile(each, [50, 99]) * 1e3
        rows.append((name, f"{p50:.1f}", f"{p99:.1f}"))
    whole = sum(np.median(each) for each in of_stage.values())
    shares = [
        (name, spread(measurement(name, each)), f"{np.median(each) / whole:.1%}") for name, each in of_stage.items()
    ]
    ratio = float(np.median(seconds["rarrg"]) / np.median(seconds["plain"]))
    goal = Goal("a warm report takes no longer than the plain script", f"{ratio:.2f} times as long", ratio <= 1)
    return [
        Table(f"A study of two images, warm, {studies} studies", ("", "p50, ms", "p99, ms"), rows),
        Table("Where its time goes", ("stage", "ms", "share"), shares),
    ], goal


class Files(Dataset[torch.Tensor]):
    """The pixels of a list's images, for the plain script's DataLoader."""

    def __init__(self, plain: Plain, paths: Sequence[Path]) -> None:
        self.plain, self.paths = plain, paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.plain.pixels(self.paths[index])


def listed(
    generator: ReportGenerator, plain: Plain, pairs: Sequence[Pair], studies: int, repeats: int
) -> tuple[Table, Goal]:
    """Studies a second of a list, from files to lines of JSON."""
    chosen = list(islice(cycle(pairs), studies))

    def written(looked: Iterator[tuple[str, StudyRetrieval]]) -> None:
        for _, report in generator.write(looked):
            json.dumps(report_to_json(report))

    def overlapping() -> None:
        found = look_each(generator, ((str(number), *pair) for number, pair in enumerate(chosen)))
        written((name, study) for name, study in found if isinstance(study, StudyRetrieval))

    def in_turn() -> None:
        written((str(number), generator.look(*pair)) for number, pair in enumerate(chosen))

    def loader() -> None:
        files = Files(plain, [path for pair in chosen for path in pair])
        for pixels in DataLoader(files, batch_size=8, num_workers=torch.get_num_threads()):
            plain.phrases_of(pixels)

    calls: dict[str, Callable[[], object]] = {
        "rarrg, a list": overlapping,
        "rarrg, one study after another": in_turn,
        "plain, one study after another": lambda: [plain(pair) for pair in chosen],
        "plain, DataLoader with a worker a core, batches of 8": loader,
    }
    seconds = alternate(calls, repeats, warm=0)  # a median of three passes over a slow first one
    rows = [(name, spread(each, "s"), f"{studies / each.median:.1f}") for name, each in seconds.items()]
    best = min(each.median for name, each in seconds.items() if name.startswith("plain"))
    ratio = best / seconds["rarrg, a list"].median
    goal = Goal("a list: more studies a second than the better plain way", f"{ratio:.2f} times as many", ratio > 1)
    return Table(f"A list of {studies} studies", ("", "s", "studies/s"), rows), goal


def with_llm(model: Path, pairs: Sequence[Pair], studies: int) -> Table:
    """A list whose reports a language model writes, one request at a time and as many as by default."""
    rows = []
    with scripted_server(delay=REPLY) as server:
        for concurrency in (1, LLMConfig().concurrency):
            llm = LLMConfig(backend="openai", model=MODEL, base_url=server.url, concurrency=concurrency)
            generator = ReportGenerator.from_pretrained(model, device="cpu", writer=WriterConfig(writer="llm", llm=llm))
            chosen = islice(cycle(pairs), studies)
            start = perf_counter()
            found = look_each(generator, ((str(number), *pair) for number, pair in enumerate(chosen)))
            looked = ((name, study) for name, study in found if isinstance(study, StudyRetrieval))
            reports = len(list(generator.write(looked)))
            rows.append((str(concurrency), f"{reports / (perf_counter() - start):.2f}"))
    title = f"Reports of a language model that takes {REPLY:g} s a reply, {studies} studies"
    return Table(title, ("requests at once", "studies/s"), rows)


def main() -> None:
    """Print the tables."""
    options = arguments(__doc__).parse_args()
    keep_freed_memory()  # as every command does
    drawn, studies, repeats = (2, 4, 1) if options.quick else (8, 40, 3)
    with tempfile.TemporaryDirectory() as name:
        pairs = write_pairs(Path(name) / "studies", drawn)
        model = write_model(Path(name) / "made", pairs)
        start, goals = cold(model, pairs[0], repeats)
        generator, plain = ReportGenerator.from_pretrained(model, device="cpu"), Plain(model, model.parent)
        latency, latency_goal = warm(generator, plain, pairs, studies)
        throughput, throughput_goal = listed(generator, plain, pairs, 3 * drawn, repeats)
        writer = with_llm(model, pairs, drawn)
    about = " ".join((__doc__ or "").split("\n\n")[2].split())
    tables = [start, *latency, throughput, writer]
    finish(Report("Reports", about, tables, [*goals, latency_goal, throughput_goal]), options)


if __name__ == "__main__":
    main()
