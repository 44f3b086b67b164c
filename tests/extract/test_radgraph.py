"""The adapter over RadGraph: over a stand-in that answers as the package does, and over the package itself."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import types
import warnings
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from rarrg.errors import RarrgError
from rarrg.extract.graph_phrases import radgraph_phrases
from rarrg.extract.radgraph import Annotated, NotAnnotated, RadGraphAnnotator
from rarrg.extract_config import RadGraphConfig

# What radgraph 0.1.18 does, without a network: keys are numbers of the list, a report whose answer cannot be read is
# left out after its traceback was printed, one that the network cannot take ends the call.
STAND_IN = """
import os, traceback, warnings

warnings.simplefilter("default", category=DeprecationWarning)
print("imported")  # as some imports of radeval do


class RadGraph:
    def __init__(self, batch_size=1, cuda=None, model_type=None, temp_dir=None, model_cache_dir=None,
                 tokenizer_cache_dir=None, **kwargs):
        print("Using device: cpu")
        assert not kwargs
        self.options = {"model_type": model_type, "model_cache_dir": model_cache_dir, "package": __name__}

    def __call__(self, hyps):
        if isinstance(hyps, str):
            hyps = [hyps]
        results = {}
        for key, report in enumerate(hyps):
            report = report or "None"
            tokens = report.split()
            if "raise" in tokens:
                raise RuntimeError("The size of tensor a (600) must match\\nthe size of tensor b (512)")
            if "die" in tokens:
                os._exit(3)
            try:
                if "skip" in tokens:
                    raise KeyError("predicted_ner")
                entities = {
                    str(n + 1): {"tokens": token, "label": "OBS-DP", "start_ix": n, "end_ix": n, "relations": []}
                    for n, token in enumerate(tokens) if token != "None"
                }
                results[str(key)] = {"text": " ".join(tokens), "entities": entities,
                                     "data_source": {**self.options, "process": os.getpid()},
                                     "data_split": "inference"}
                if "bare" in tokens:
                    del results[str(key)]["entities"]
            except Exception:
                traceback.print_exc()
                print(f"Error in doc key: {key}. Skipping inference on this file")
        return results
"""


@pytest.fixture
def clean_modules() -> Iterator[None]:
    """No RadGraph is imported; what was imported before comes back afterwards."""

    def ours() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] in ("radgraph", "radeval", "RadEval")]

    before = {name: sys.modules.pop(name) for name in ours()}
    yield
    for name in ours():
        del sys.modules[name]
    sys.modules.update(before)


def install(folder: Path, name: str, version: str) -> None:
    """Let a distribution count as installed in a folder of ``sys.path``."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def packages(tmp_path, monkeypatch, clean_modules) -> Path:
    """A folder of packages that go before the installed ones, in this process and in those it starts."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def stand_in(packages) -> None:
    install(packages, "radgraph", "0.1.18")
    (packages / "radgraph.py").write_text(STAND_IN)


@pytest.fixture
def weights(tmp_path) -> Path:
    """A folder as the unpacked archive leaves it, without a network in it."""
    folder = tmp_path / "weights" / "radgraph"
    (folder / "vocabulary").mkdir(parents=True)
    (folder / "weights.th").touch()
    bert = {"type": "pretrained_transformer_mismatched", "model_name": "some/bert", "max_length": 512}
    (folder / "config.json").write_text(json.dumps({"dataset_reader": {"token_indexers": {"bert": bert}}}))
    return folder.parent


def only_versions(monkeypatch, **versions: str) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    found = types.SimpleNamespace(version=version, PackageNotFoundError=metadata.PackageNotFoundError)
    monkeypatch.setattr("rarrg.extract.radgraph.metadata", found)


# ------------------------------------------------------------------------------------------------ with the stand-in


def test_every_text_has_its_annotation_in_order(stand_in):
    annotator = RadGraphAnnotator(RadGraphConfig())
    texts = ["Mild edema .", "", "No effusion ."]
    outcomes = list(annotator.annotate(texts))
    assert all(isinstance(outcome, Annotated) and outcome.seconds >= 0 for outcome in outcomes)
    assert [outcome.annotation["text"] for outcome in outcomes] == ["Mild edema .", "None", "No effusion ."]
    assert radgraph_phrases(outcomes[0].annotation) == ["mild", "edema", "."]
    assert radgraph_phrases(outcomes[1].annotation) == []
    assert (annotator.model, annotator.version) == ("radgraph", "radgraph 0.1.18")


@pytest.mark.parametrize("processes", [1, 2])
def test_a_bad_report_takes_no_other_with_it(stand_in, processes, capfd):
    annotator = RadGraphAnnotator(RadGraphConfig(processes=processes))
    first, skipped, raised, bare, last = annotator.annotate(["edema", "skip me", "raise me", "bare", "effusion"])
    assert [first.annotation["text"], last.annotation["text"]] == ["edema", "effusion"]
    assert isinstance(skipped, NotAnnotated)
    assert skipped.reason == "the package skipped it (KeyError: 'predicted_ner')"
    assert raised.reason == "RuntimeError: The size of tensor a (600) must match"
    assert bare.reason == "the answer has no entities"
    assert capfd.readouterr() == ("", "")


def test_texts_are_drawn_one_by_one(stand_in):
    drawn = []
    outcomes = RadGraphAnnotator(RadGraphConfig()).annotate(drawn.append(n) or f"edema {n}" for n in range(9))
    assert not drawn
    next(outcomes)
    next(outcomes)
    assert drawn == [0, 1]


@pytest.mark.slow
def test_several_processes_give_the_same_in_order_and_draw_a_bounded_number_ahead(stand_in):
    drawn = 0

    def texts() -> Iterator[str]:
        nonlocal drawn
        for number in range(1000):
            drawn += 1
            yield f"report {number}"

    outcomes = RadGraphAnnotator(RadGraphConfig(processes=2)).annotate(texts())
    seen = [next(outcomes) for _ in range(160)]
    assert [outcome.annotation["text"] for outcome in seen] == [f"report {number}" for number in range(160)]
    assert 160 < drawn <= 160 + 100
    assert os.getpid() not in {outcome.annotation["data_source"]["process"] for outcome in seen}
    outcomes.close()
    assert drawn < 1000


@pytest.mark.slow
def test_a_worker_that_dies_is_one_clear_error(stand_in):
    with pytest.raises(RarrgError, match=r"a worker process died after \d+ reports.*lower .*processes \(now 2\)"):
        list(RadGraphAnnotator(RadGraphConfig(processes=2)).annotate(["edema"] * 16 + ["die"]))


@pytest.mark.parametrize("model", ["radgraph", "radgraph-xl"])
def test_the_model_type_is_always_named(stand_in, model):
    (outcome,) = RadGraphAnnotator(RadGraphConfig(model_type=model)).annotate(["edema"])
    assert outcome.annotation["data_source"]["model_type"] == model
    assert outcome.annotation["data_source"]["model_cache_dir"] is None


def test_the_folder_of_the_weights_or_the_one_around_it_is_named(stand_in, weights):
    for named in (weights, weights / "radgraph"):
        (outcome,) = RadGraphAnnotator(RadGraphConfig(weights=str(named))).annotate(["edema"])
        assert outcome.annotation["data_source"]["model_cache_dir"] == str(weights)


def test_the_filters_of_warnings_are_left_alone(stand_in):
    before = list(warnings.filters)
    list(RadGraphAnnotator(RadGraphConfig()).annotate(["edema"]))
    assert list(warnings.filters) == before


# ------------------------------------------------------------------------------------------------ what is not there


def test_lacking_weights_are_named(stand_in, tmp_path, weights):
    (weights / "radgraph" / "weights.th").unlink()
    with pytest.raises(RarrgError) as caught:
        RadGraphAnnotator(RadGraphConfig(weights=str(weights)))
    assert str(caught.value) == (
        f"extract.radgraph.weights: {weights}/radgraph lacks weights.th; fetch radgraph.tar.gz from "
        "huggingface.co/StanfordAIMI/RRG_scorers and unpack it there"
    )
    with pytest.raises(RarrgError, match=r"/nowhere/radgraph lacks config\.json, weights\.th, vocabulary; fetch"):
        RadGraphAnnotator(RadGraphConfig(weights="/nowhere"))
    with pytest.raises(RarrgError, match=r"/radgraph-xl lacks .* fetch radgraph-xl\.tar\.gz"):
        RadGraphAnnotator(RadGraphConfig("radgraph-xl", weights=str(weights)))


@pytest.mark.parametrize("content", ["{}", '{"dataset_reader": []}'])
def test_another_models_folder_is_refused(stand_in, weights, content):
    (weights / "radgraph" / "config.json").write_text(content)
    with pytest.raises(RarrgError, match=r"config\.json: names no language model"):
        RadGraphAnnotator(RadGraphConfig(weights=str(weights)))


def test_neither_package(monkeypatch):
    only_versions(monkeypatch, transformers="4.57.6")
    with pytest.raises(RarrgError, match=r"radgraph is not installed; pip install 'rarrg\[extract\]'"):
        RadGraphAnnotator(RadGraphConfig())


def test_radgraph_beside_transformers_5(monkeypatch):
    only_versions(monkeypatch, transformers="5.1.0", radgraph="0.1.18")
    with pytest.raises(RarrgError, match=r"radgraph 0\.1\.18: needs transformers before 5, found 5\.1\.0; pip install"):
        RadGraphAnnotator(RadGraphConfig())


@pytest.mark.parametrize("processes", [1, 2])
def test_a_package_that_cannot_be_imported(packages, processes):
    install(packages, "radgraph", "0.1.18")
    (packages / "radgraph.py").write_text("import a_module_that_is_not_there")
    with pytest.raises(RarrgError, match=r"radgraph: cannot be imported .*a_module_that_is_not_there"):
        list(RadGraphAnnotator(RadGraphConfig(processes=processes)).annotate(["edema"]))


# ------------------------------------------------------------------------------------------------------ radeval


def radeval_module() -> types.ModuleType:
    module = types.ModuleType("radeval.metrics.radgraph")
    exec(STAND_IN, module.__dict__)
    return module


def test_radeval_stands_in_where_radgraph_is_not_installed(monkeypatch, clean_modules):
    only_versions(monkeypatch, transformers="4.57.6", radeval="2.2.1")
    for module in (types.ModuleType("radeval"), types.ModuleType("radeval.metrics"), radeval_module()):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    annotator = RadGraphAnnotator(RadGraphConfig())
    (outcome,) = annotator.annotate(["edema"])
    assert annotator.version == "radeval 2.2.1"
    assert outcome.annotation["data_source"]["package"] == "radeval.metrics.radgraph"
    assert outcome.annotation["data_source"]["model_type"] == "radgraph"


def test_radeval_goes_first_beside_transformers_5(monkeypatch):
    only_versions(monkeypatch, transformers="5.1.0", radgraph="0.1.18", radeval="2.2.1")
    assert RadGraphAnnotator(RadGraphConfig()).version == "radeval 2.2.1"


def test_radeval_finds_its_own_modules(monkeypatch, packages):
    """Release 2.2.1 is a folder radeval whose modules import RadEval."""
    only_versions(monkeypatch, transformers="5.1.0", radeval="2.2.1")
    folder = packages / "radeval" / "metrics" / "radgraph"
    folder.mkdir(parents=True)
    for package in (folder.parent.parent, folder.parent):
        (package / "__init__.py").touch()
    (folder / "core.py").write_text(STAND_IN)
    (folder / "__init__.py").write_text("from RadEval.metrics.radgraph.core import RadGraph\n")
    (outcome,) = RadGraphAnnotator(RadGraphConfig()).annotate(["edema"])
    assert isinstance(outcome, Annotated)


# ------------------------------------------------------------------------------------------------ the real package


@pytest.fixture
def real() -> types.ModuleType:
    with warnings.catch_warnings():  # the package changes them
        warnings.simplefilter("ignore")
        return pytest.importorskip("radgraph", reason="radgraph is not installed: pip install 'rarrg[extract]'")


@pytest.fixture
def offline(monkeypatch) -> Iterator[None]:
    # The hub's client keeps a session for later, which would stay offline; its name differs between versions.
    http = importlib.import_module("huggingface_hub.utils._http")
    forget = getattr(http, "close_session", None) or http.reset_sessions
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    forget()
    yield
    forget()


@pytest.mark.slow
def test_the_package_has_the_keywords_and_the_answer_of_the_stand_in(real, capsys):
    made, called = inspect.signature(real.RadGraph.__init__), inspect.signature(real.RadGraph.forward)
    space: dict[str, Any] = {"__name__": "stand_in"}
    exec(STAND_IN, space)
    capsys.readouterr()
    assert list(made.parameters) == list(inspect.signature(space["RadGraph"].__init__).parameters)
    assert {"model_type", "model_cache_dir"} <= set(made.parameters)
    called.bind(None, ["edema"])

    read = {
        "doc_key": "0",
        "sentences": [["Mild", "edema", "."]],
        "predicted_ner": [[[0, 0, "OBS-DP", 9.1, 0.9], [1, 1, "OBS-DP", 9.5, 0.9]]],
        "predicted_relations": [[[0, 0, 1, 1, "modify", 8.0, 0.9]]],
    }
    unread = {"doc_key": "1", "sentences": [["edema"]]}
    answer = sys.modules["radgraph.utils"].postprocess_reports([read, unread])
    assert list(answer) == ["0"]
    printed = capsys.readouterr()
    assert "KeyError: 'predicted_ner'" in printed.err
    assert printed.out == "Error in doc key: 1. Skipping inference on this file\n"
    assert radgraph_phrases(answer["0"]) == ["mild edema"]
    (imitated,) = space["RadGraph"]()(["edema"]).values()
    assert list(answer["0"]) == list(imitated)
    assert list(answer["0"]["entities"]["1"]) == list(imitated["entities"]["1"])


@pytest.mark.slow
def test_the_package_without_weights_and_network(real, offline, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["radgraph.radgraph"], "CACHE_DIR", str(tmp_path))
    with pytest.raises(RarrgError) as caught:
        list(RadGraphAnnotator(RadGraphConfig()).annotate(["edema"]))
    message = str(caught.value)
    assert "\n" not in message
    assert "fetch radgraph.tar.gz from huggingface.co/StanfordAIMI/RRG_scorers" in message
    assert "unpack it to DIR/radgraph (which then holds config.json, weights.th, vocabulary)" in message
    assert message.endswith("set extract.radgraph.weights: DIR")


@pytest.fixture
def random_weights(real, tmp_path, monkeypatch) -> Path:
    """The package's own network with chance weights over a language model of eight words."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    base, folder = tmp_path / "bert", tmp_path / "weights" / "radgraph"
    (folder / "vocabulary").mkdir(parents=True)
    base.mkdir()
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a b 1 2 mild edema . none".split()
    (base / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(base / "vocab.txt")).save_pretrained(base)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=512, **size)).save_pretrained(base)

    bert = {"type": "pretrained_transformer_mismatched", "model_name": str(base), "max_length": 512}
    events = {"trigger_spans_per_word": 0.3, "argument_spans_per_word": 0.8, "loss_weights": {}}
    config = {
        "dataset_reader": {"type": "dygie", "max_span_width": 3, "token_indexers": {"bert": bert}},
        "model": {
            "type": "dygie",
            "embedder": {"token_embedders": {"bert": bert}},
            "initializer": {},
            "module_initializer": {},
            "feature_size": 4,
            "max_span_width": 3,
            "target_task": "ner",
            "feedforward_params": {"num_layers": 1, "hidden_dims": 8, "dropout": 0.0},
            "loss_weights": {"ner": 1.0, "relation": 1.0, "coref": 0.0, "events": 0.0},
            "modules": {
                "ner": {},
                "relation": {"spans_per_word": 0.1},
                "coref": {"spans_per_word": 0.3, "max_antecedents": 10},
                "events": events,
            },
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    labels = {
        "non_padded_namespaces": ["*labels", "*tags"],
        "radgraph__ner_labels": ["", "ANAT-DP", "OBS-DP", "OBS-DA", "OBS-U"],
        "radgraph__relation_labels": ["modify", "located_at", "suggestive_of"],
    }
    for name, lines in labels.items():
        (folder / "vocabulary" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    torch.save({}, folder / "weights.th")
    network = sys.modules["radgraph.dygie.models.dygie"].DyGIE
    monkeypatch.setattr(network, "load_state_dict", lambda self, state, strict: None)
    return folder.parent


@pytest.mark.slow
def test_the_package_itself_annotates(random_weights, offline, capfd):
    annotator = RadGraphAnnotator(RadGraphConfig(weights=str(random_weights)))
    texts = ["Mild edema, left-sided. No 5.2 cm mass.", "", "edema", "   ", "mild " * 700]
    outcomes = list(annotator.annotate(texts))
    first, empty, one_word, blank, long = outcomes
    assert capfd.readouterr() == ("", "")
    assert first.annotation["text"] == "Mild edema , left-sided . No 5 . 2 cm mass ."
    assert first.annotation["entities"]
    assert radgraph_phrases(first.annotation)
    assert empty.annotation["text"] == "None"
    assert one_word.annotation["text"] == "edema"
    assert isinstance(blank, NotAnnotated)
    assert long.annotation["text"] == ("mild " * 700).strip()


@pytest.mark.slow
def test_a_lacking_language_model_is_named(random_weights, offline):
    path = random_weights / "radgraph" / "config.json"
    config = json.loads(path.read_text())
    config["dataset_reader"]["token_indexers"]["bert"]["model_name"] = "nobody/no-such-bert"
    path.write_text(json.dumps(config))
    with pytest.raises(RarrgError, match=r"cannot be loaded .* hf download nobody/no-such-bert$") as caught:
        list(RadGraphAnnotator(RadGraphConfig(weights=str(random_weights))).annotate(["edema"]))
    assert "\n" not in str(caught.value)
