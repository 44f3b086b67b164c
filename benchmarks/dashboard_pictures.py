"""Draw each dashboard panel of a training run, for ``docs/dashboards.md``.

    python benchmarks/dashboard_pictures.py runs/iu_xray --out docs/images/dashboard

The numbers are those that W&B shows, read from the run folder: ``logs/version_*/metrics.csv``, ``sweep.csv`` and
``queries.csv``. The table of images is drawn from the run's W&B files, and for drawn studies alone: other images may
not be published.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import math
import textwrap
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import yaml
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from rarrg.config import DataConfig
from rarrg.data.images import read_image
from rarrg.data.studies import read_studies

log = logging.getLogger(__name__)

Row = dict[str, str]
Panel = Callable[[Path], Figure]
TERMS = ("loss", "selection", "similarity", "contrastive")
SHOWN_IMAGES = 3
STYLE = {
    # Text stays text and names stay the same: small files, and no difference where the numbers are the same.
    "svg.fonttype": "none",
    "svg.hashsalt": "rarrg",
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "font.size": 8,
    "lines.linewidth": 1.2,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
}


def metrics(run: Path) -> list[Row]:
    """Rows of the CSV logs, one log a start; of what a killed run did past its checkpoint, the later start's rows."""
    rows: list[Row] = []
    for path in sorted(run.glob("logs/version_*/metrics.csv"), key=lambda path: int(path.parent.name.split("_")[1])):
        with path.open(encoding="utf-8", newline="") as file:
            new = list(csv.DictReader(file))
        rows = [row for row in rows if not new or int(row["step"]) < int(new[0]["step"])] + new
    return rows


def last_epoch(path: Path) -> list[Row]:
    """Rows of the last epoch of ``sweep.csv`` or ``queries.csv``."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row for row in rows if row["epoch"] == rows[-1]["epoch"]]


def curve(axes: Axes, rows: list[Row], name: str, label: str | None = None, marker: str = "") -> None:
    """Draw a logged figure over the steps."""
    points = [(int(row["step"]), float(row[name])) for row in rows if row.get(name)]
    axes.plot(*zip(*points, strict=True), label=label or name, marker=marker, markersize=3)


def grid(titles: tuple[str, ...], xlabel: str) -> tuple[Figure, list[Axes]]:
    """A row of small plots."""
    figure, axes = plt.subplots(1, len(titles), figsize=(3.1 * len(titles), 2.6), squeeze=False, layout="constrained")
    for one, title in zip(axes[0], titles, strict=True):
        one.set_title(title)
        one.set_xlabel(xlabel)
        one.locator_params(nbins=5)
    return figure, list(axes[0])


def losses(run: Path) -> Figure:
    """Each loss term over the training steps, and of each validation."""
    rows = metrics(run)
    figure, axes = grid(TERMS, "step")
    for one, term in zip(axes, TERMS, strict=True):
        curve(one, rows, f"train/{term}", "train")
        curve(one, rows, f"val/{term}", "val", "o")
    axes[0].legend()
    return figure


def training(run: Path) -> Figure:
    """Learning rate, gradient norm and speed."""
    rows = metrics(run)
    names = ("lr-AdamW", "train/grad_norm", "train/images_per_second", "train/data_wait")
    figure, axes = grid(names, "step")
    for one, name in zip(axes, names, strict=True):
        curve(one, rows, name)
        one.set_ylim(bottom=0)
    axes[3].set_ylim(0, 1)
    return figure


def agreement(run: Path) -> Figure:
    """Selection against matching, and retrieved against own phrases."""
    rows = metrics(run)
    parts = {
        "selection": ("selection_precision", "selection_recall", "selection_f1"),
        "phrases at cosine 0.8": ("phrase_precision", "phrase_recall"),
        "findings": ("findings_micro_f1", "findings_macro_f1"),
        "matched cosine": ("matched_cosine",),
    }
    figure, axes = grid(tuple(parts), "step")
    for one, names in zip(axes, parts.values(), strict=True):
        for name in names:
            curve(one, rows, f"val/{name}", name.partition("_")[2], "o")
        one.set_ylim(0, 1)
        if len(names) > 1:
            one.legend()
    return figure


def variety(run: Path) -> Figure:
    """What shows a collapse."""
    rows = metrics(run)
    names = ("distinct_phrases", "distinct_reports", "phrases_per_image")
    figure, axes = grid(names, "step")
    for one, name in zip(axes, names, strict=True):
        curve(one, rows, f"val/{name}", marker="o")
        one.set_ylim(bottom=0)
    return figure


def sweep(run: Path) -> Figure:
    """The last validation at every threshold; the threshold of the run is dotted."""
    rows = last_epoch(run / "sweep.csv")
    chosen = json.loads((run / "summary.json").read_text(encoding="utf-8"))["threshold"]
    parts = {
        "selection": ("selection_precision", "selection_recall", "selection_f1"),
        "phrases and findings": ("phrase_precision", "phrase_recall", "findings_micro_f1", "findings_macro_f1"),
        "phrases per image": ("phrases_per_image",),
        "over all images": ("distinct_phrases", "distinct_reports"),
    }
    figure, axes = grid(tuple(parts), "threshold")
    x = [float(row["threshold"]) for row in rows]
    for one, names in zip(axes, parts.values(), strict=True):
        for name in names:
            one.plot(x, [float(row[name]) for row in rows], label=name.removeprefix("selection_").replace("_", " "))
        one.axvline(chosen, color="grey", linestyle=":")
        one.set_ylim(bottom=0)
        if len(names) > 1:
            one.legend()
    return figure


def queries(run: Path) -> Figure:
    """How often each query retrieves in the last validation, and how many different phrases."""
    rows = last_epoch(run / "queries.csv")
    titles = {"selected": "share of images in which a query retrieves", "distinct_phrases": "different phrases"}
    figure, axes = grid(tuple(titles.values()), "query")
    figure.set_figwidth(12)
    for one, name in zip(axes, titles, strict=True):
        one.bar([int(row["query"]) for row in rows], [float(row[name]) for row in rows])
    return figure


def images(run: Path) -> Figure:
    """Some rows of the table of images after the last validation, with the image files of the drawn studies."""
    config = yaml.safe_load((run / "train.yaml").read_text(encoding="utf-8"))
    tables = sorted(run.glob("wandb/*run-*/files/media/table/val/images_*.table.json"), key=lambda p: p.stat().st_mtime)
    if config["data"]["source"] != "phantom" or not tables:
        raise SystemExit(f"{run}: the panel images needs a run on drawn studies with W&B offline and log.log_images")
    rows = json.loads(tables[-1].read_text(encoding="utf-8"))["data"]
    rows = rows[:: math.ceil(len(rows) / SHOWN_IMAGES)]
    studies = read_studies(DataConfig(**config["data"]), config["seed"])
    views = {view.image_id: view for study in studies for view in study.views}
    figure, grid_axes = plt.subplots(
        len(rows), 3, figsize=(10, 1.75 * len(rows)), width_ratios=(1, 1.8, 3.2), layout="constrained"
    )
    for axes, (_, image_id, position, reference, retrieved) in zip(grid_axes, rows, strict=True):
        axes[0].imshow(read_image(views[image_id].path), cmap="gray", vmin=0, vmax=255)
        axes[0].set_ylabel(position)
        axes[0].set_xticks([])
        axes[0].set_yticks([])
        for one, text, width in zip(axes[1:], (reference, retrieved), (36, 72), strict=True):
            lines = [textwrap.fill(line, width, subsequent_indent="  ") for line in text.splitlines()]
            one.axis("off")
            one.text(0, 1, "\n".join(lines), va="top", fontsize=7, transform=one.transAxes)
    for one, title in zip(grid_axes[0], ("image", "reference phrases", "retrieved phrases"), strict=True):
        one.set_title(title, loc="left")
    return figure


PANELS: dict[str, Panel] = {
    "losses": losses,
    "training": training,
    "agreement": agreement,
    "variety": variety,
    "sweep": sweep,
    "queries": queries,
    "images": images,
}


def main() -> None:
    """Read the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--out", type=Path, default=Path("docs/images/dashboard"), help="folder of the pictures")
    parser.add_argument(
        "--panels",
        nargs="+",
        choices=PANELS,
        default=[name for name in PANELS if name != "images"],
        help="which to draw; images, which not every run may show, only where it is named",
    )
    args = parser.parse_args()
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    mpl.use("svg")
    mpl.rcParams.update(STYLE)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.panels:
        figure = PANELS[name](args.run)
        if name == "images":  # pixels, all grey, are smaller as PNG than inside an SVG
            path = args.out / f"{name}.png"
            figure.savefig(path, dpi=85)
            Image.open(path).convert("L").save(path, optimize=True)
        else:
            path = args.out / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
        log.info("%s", path)


if __name__ == "__main__":
    main()
