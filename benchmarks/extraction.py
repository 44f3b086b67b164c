"""What the refine step costs beside the language model, for ``docs/extraction.md``.

    python benchmarks/extraction.py [--reports 1000 227835] [--json FILE]

Made-up reports with made-up RadGraph phrases are refined by a server in a process of its own that answers at once, so
that what is left is the step: reading, asking, caching, parsing, checking, writing. Beside it stands the floor: a loop
that writes the same JSON and asks the same server by the client alone, a report at a time as many as are under way in
the step. Seconds are wall-clock, on an otherwise idle machine; memory is the largest of the process, in a process for
each size. Nothing is asked of a real model.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import openai
from joblib.externals.loky import get_reusable_executor

from rarrg.artifacts import write_json, write_jsonl
from rarrg.data.card import CARD
from rarrg.extract.folder import GRAPH_PHRASES, REPORTS
from rarrg.extract.prompt import key_phrase_prompt
from rarrg.extract.reports import ReportText, read_reports, write_reports
from rarrg.extract_config import ExtractConfig
from rarrg.extraction import Extraction, ExtractOptions
from rarrg.llm_config import LLMConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.measuring import Goal, Report, Table, arguments, finish
from tests.llm.scripted_server import MODEL, scripted_server

SIZES = (1000, 8_000)
CONCURRENCY = 64
FLOOR = 2000
"""Reports of the floor, which does not depend on their number."""

FINDINGS = (
    "cardiomegaly",
    "pleural effusion",
    "pneumothorax",
    "basilar opacity",
    "atelectasis",
    "pulmonary edema",
    "rib fracture",
    "calcified granuloma",
    "hiatal hernia",
    "central venous catheter",
)
STATES = ("no {}", "small {}", "stable {}", "left {}", "moderate right {}", "possible {}")


def made_up(number: int) -> Iterator[ReportText]:
    """Reports of seven sentences, no two alike."""
    generator = np.random.default_rng(0)
    for study in range(number):
        chosen = zip(generator.permutation(FINDINGS)[:6], generator.choice(STATES, 6), strict=True)
        sentences = [f"There is {state.format(finding)}." for finding, state in chosen]
        yield ReportText(f"s{study}", "train", " ".join([*sentences, f"The nodule measures {study} mm."]))


def phrases_of(report: ReportText) -> list[str]:
    """As RadGraph would say them, more or less."""
    return [part.removeprefix("There is ") for part in report.findings.rstrip(".").split(". ")]


def config(url: str, cache: Path) -> ExtractConfig:
    """Ask the scripted server, as many at once as by default."""
    llm = LLMConfig(backend="openai", model=MODEL, base_url=url, concurrency=CONCURRENCY, cache=str(cache))
    return ExtractConfig(llm=llm)


def stage(number: int, url: str) -> dict[str, float]:
    """Run the step over so many reports in this process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        write_reports(made_up(number), out / REPORTS)
        rows = ({"text_sha256": r.sha256, "phrases": phrases_of(r)} for r in read_reports(out / REPORTS))
        write_jsonl(out / GRAPH_PHRASES, rows)
        write_json(out / CARD, {"source": "iu_xray", "credentialed": False})
        extraction = Extraction(
            ExtractOptions(out=str(out), extract=config(url, out / "cache.sqlite")), lambda line: None
        )
        start = time.perf_counter()
        extraction.refine()
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        extraction.refine()
        again = time.perf_counter() - start
    # This process would wait for idle ones at its end.
    get_reusable_executor().shutdown()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"reports": number, "seconds": seconds, "again": again, "memory": memory}


async def floor(number: int, url: str) -> float:
    """Seconds to ask about so many reports by the client alone."""
    prompt = key_phrase_prompt()
    reports = made_up(number)
    client = openai.AsyncOpenAI(base_url=url, api_key="-")
    schema = {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(prompt.schema), "strict": True}}

    async def worker() -> None:
        for report in reports:
            messages = [vars(message) for message in prompt.messages(report.findings, phrases_of(report))]
            reply = await client.chat.completions.create(
                model=MODEL, messages=messages, temperature=0.6, top_p=0.9, max_tokens=1024, response_format=schema
            )
            json.dumps({"study_id": report.study_id, "key_phrases": json.loads(reply.choices[0].message.content)})

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--reports", nargs="+", type=int, default=SIZES, help="sizes of the data set")
    options = parser.parse_args()
    sizes = [200] if options.quick else options.reports
    with scripted_server(keep_log=False) as server:
        floor_reports = min(FLOOR, 10 * sizes[0])
        seconds = asyncio.run(floor(floor_reports, server.url))
        rows = [("client and json.dumps alone", str(floor_reports), f"{floor_reports / seconds:.0f}", "-", "-")]
        for number in sizes:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                found = pool.submit(stage, number, server.url).result()
            rate, again = number / found["seconds"], number / found["again"]
            rows.append(("refine step", str(number), f"{rate:.0f}", f"{again:.0f}", f"{found['memory']:.0f}"))
    columns = ("", "reports", "reports/s", "again, all done: reports/s", "largest memory, MiB")
    about = (
        "The step that refines phrases with a language model, asking a server that answers at once, beside a loop that "
        "asks the same server by the client alone. Made-up reports; a size is one run in a process of its own."
    )
    table = Table(f"{CONCURRENCY} requests under way", columns, rows)
    goals = [
        Goal(
            f"extraction of {number:,} reports: 300 a second with a server that answers at once",
            f"{rate:.0f}/s",
            rate >= 300,
        )
    ]
    title = "Extraction" if number <= SIZES[-1] else f"Extraction of {number:,} reports"
    finish(Report(title, about, [table], goals), options)


if __name__ == "__main__":
    main()
