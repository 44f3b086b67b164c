from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import HfApi
from huggingface_hub.utils import filter_repo_objects, get_session
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from rarrg.artifacts import Manifest
from rarrg.config import RetrieverConfig
from rarrg.errors import RarrgError
from rarrg.models import model_folder as folders
from rarrg.models.decoder import sine_position
from rarrg.models.linear_reading import LinearReading
from rarrg.models.reference import check_reference
from rarrg.models.retriever import ModelInfo, PhraseRetriever, model_folder, select_queries, shared_logits

ENCODERS = [4, 2]  # channels of each
CHANNELS, TEXT = sum(ENCODERS), 10
CONFIG = RetrieverConfig(queries=5, layers=2, dim=16, heads=4, feedforward=24)


def make(**changes) -> PhraseRetriever:
    torch.manual_seed(0)
    return PhraseRetriever(ENCODERS, TEXT, dataclasses.replace(CONFIG, **changes)).eval()


def info_of(retriever: PhraseRetriever, **changes) -> ModelInfo:
    info = ModelInfo(
        retriever=dataclasses.asdict(retriever.config),
        channels=ENCODERS,
        text_dim=TEXT,
        vision=[
            {
                "spec": "packaged:efficientnet-lite0",
                "size": 256,
                "revision": None,
                "stages": None,
                "fingerprint": "a" * 16,
            }
        ],
        text={"encoder": "packaged:all-MiniLM-L6-v2", "revision": None, "dim": TEXT, "fingerprint": "b" * 16},
        threshold=0.35,
        training={"data": "phantom", "studies": 120, "seed": 3, "figures": {"val/loss": 1.25}},
    )
    return dataclasses.replace(info, **changes)


def test_shapes_units_and_attention():
    output = make()(torch.randn(2, CHANNELS, 3, 4), need_attention=True)
    assert output.logits.shape == (2, 5)
    assert output.embeddings.shape == (2, 5, TEXT)
    assert output.attention.shape == (2, 5, 3, 4)
    torch.testing.assert_close(output.embeddings.norm(dim=-1), torch.ones(2, 5))
    torch.testing.assert_close(output.attention.sum((-1, -2)), torch.ones(2, 5))
    assert make()(torch.randn(2, CHANNELS, 3, 4)).attention is None


def test_members_read_the_encoders_they_are_dealt():
    retriever = make(members=3, anchors=True, reads=[[1], [0, 1]])
    features = torch.randn(2, CHANNELS, 3, 4)
    changed = features.clone()
    changed[:, :4] += 1  # the first encoder
    for number, (before, after) in enumerate(zip(retriever.each(features), retriever.each(changed), strict=True)):
        assert torch.equal(before.logits, after.logits) == (number in (0, 2))
    assert [member.projection.in_features for member in retriever.members] == [2, 6, 2]
    with pytest.raises(RarrgError, match=r"retriever\.reads: names encoder 2, but the last of the 2 is 1"):
        make(members=1, reads=[[0, 2]])


@pytest.mark.parametrize(("reads", "said"), [
    ([], "lists of rising numbers"),
    ([[]], "lists of rising numbers"),
    ([[1, 0]], "lists of rising numbers"),
    ([[0], [1]], r"at most retriever\.members \(1\) lists"),
])  # fmt: skip
def test_what_members_cannot_read_is_said(reads: list[list[int]], said: str):
    with pytest.raises(RarrgError, match=rf"retriever\.reads: must be {said}"):
        dataclasses.replace(CONFIG, reads=reads)


def test_is_projection_decoder_and_heads_in_row_order():
    retriever = make(position="sine2d")
    features = torch.randn(2, CHANNELS, 3, 4)
    tokens = torch.stack([features[:, :, row, column] for row in range(3) for column in range(4)], dim=1)
    (member,) = retriever.members
    decoded, attention = member.decoder(member.projection(tokens), sine_position(3, 4, 16), True)
    hidden = decoded
    for layer in (member.semantic[0], member.semantic[2]):
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    hidden = hidden @ member.semantic[4].weight.T + member.semantic[4].bias
    output = retriever(features, need_attention=True)
    torch.testing.assert_close(output.embeddings, F.normalize(hidden, dim=-1))
    torch.testing.assert_close(output.logits, (decoded @ member.selection.weight.T + member.selection.bias)[..., 0])
    torch.testing.assert_close(output.attention[0, 1, 2, 3], attention[0, 1, 2 * 4 + 3])


def test_position_is_used_where_it_is_asked_for():
    features = torch.randn(1, CHANNELS, 3, 3)
    turned = features.flip(-1)
    without, with_ = make(), make(position="sine2d")
    torch.testing.assert_close(without(features).logits, without(turned).logits, atol=1e-5, rtol=1e-4)
    assert (with_(features).logits - with_(turned).logits).abs().max() > 1e-4
    with pytest.raises(RarrgError, match=r"retriever\.dim.*multiple of 4"):
        make(position="sine2d", dim=18, heads=2)


def test_anchored_queries_start_at_their_anchors_and_learn_offsets():
    plain, anchored = make(), make(anchors=True)
    anchors = torch.nn.functional.normalize(torch.randn(CONFIG.queries, TEXT), dim=-1)
    anchored.set_anchors(anchors)
    features = torch.randn(2, CHANNELS, 3, 3)
    torch.testing.assert_close(anchored(features).embeddings, anchors.expand(2, -1, -1))
    torch.nn.init.normal_(anchored.members[0].semantic[-1].weight)
    moved = anchored(features).embeddings
    assert not torch.allclose(moved, anchors.expand(2, -1, -1), atol=0.1)
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(2, CONFIG.queries))
    with pytest.raises(ValueError, match="anchors is off"):
        plain.set_anchors(anchors)
    with pytest.raises(ValueError, match="expected"):
        anchored.set_anchors(anchors[1:])


def test_an_ensemble_has_the_mean_logits_and_the_embedding_of_the_member_with_the_largest():
    ensemble = make(anchors=True, members=3)
    anchors = F.normalize(torch.randn(CONFIG.queries, TEXT), dim=-1)
    ensemble.set_anchors(anchors)
    for member in ensemble.members:
        torch.nn.init.normal_(member.semantic[-1].weight)
    offset = torch.arange(float(CONFIG.queries))
    ensemble.set_offset(offset)
    features = torch.randn(2, CHANNELS, 3, 4)
    together, each = ensemble(features, need_attention=True), list(ensemble.each(features))

    alone = []
    for number in range(3):
        single = make(anchors=True)
        own = ensemble.members[number].state_dict()
        buffers = {"mean": ensemble.mean, "std": ensemble.std, "anchors": anchors, "offset": offset}
        single.load_state_dict({f"members.0.{name}": value for name, value in own.items()} | buffers)
        alone.append(single(features, need_attention=True))
        torch.testing.assert_close(each[number].logits, alone[-1].logits)
        torch.testing.assert_close(each[number].embeddings, alone[-1].embeddings)
    assert (alone[0].logits - alone[1].logits).abs().max() > 0.01
    torch.testing.assert_close(together.logits, sum(output.logits for output in alone) / 3)
    torch.testing.assert_close(together.attention, sum(output.attention for output in alone) / 3)
    surest = np.stack([output.logits.detach() for output in alone]).argmax(axis=0)
    assert len(np.unique(surest)) > 1
    for image, query in np.ndindex(surest.shape):
        expected = alone[surest[image, query]].embeddings[image, query]
        torch.testing.assert_close(together.embeddings[image, query], expected)
    with pytest.raises(RarrgError, match=r"retriever\.members: must be 1 without retriever\.anchors, got 2"):
        RetrieverConfig(members=2)


def test_an_offset_is_added_to_each_querys_logit_and_kept():
    retriever, features, offset = make(), torch.randn(2, CHANNELS, 3, 3), torch.arange(float(CONFIG.queries))
    before = retriever(features).logits
    retriever.set_offset(offset)
    torch.testing.assert_close(retriever(features).logits, before + offset)
    assert "offset" in retriever.state_dict()


def test_a_classifier_has_half_the_say_in_the_selection_of_findings_and_is_kept(tmp_path: Path):
    retriever, alone = make(anchors=True, members=2, classifier=True), make(anchors=True, members=2)
    offset = torch.arange(float(CONFIG.queries))
    for each in (retriever, alone):
        each.set_offset(offset)
    reading = LinearReading(torch.randn(3, CHANNELS), torch.tensor([0.1, 0.2, 0.3]))
    retriever.set_classifier(reading, torch.tensor([2, -1, 0, -1, -1]))
    features = torch.randn(2, CHANNELS, 3, 4)
    found, members = retriever(features), alone(features)
    channels = (features.mean((2, 3)) + features.amax((2, 3))) / 2
    for query, finding in ((0, 2), (2, 0)):
        read = channels @ reading.weight[finding] + reading.bias[finding]
        own = members.logits[:, query] - offset[query]
        torch.testing.assert_close(found.logits[:, query], (own + read) / 2 + offset[query])
    for query in (1, 3, 4):
        torch.testing.assert_close(found.logits[:, query], members.logits[:, query])
    torch.testing.assert_close(found.embeddings, members.embeddings)
    for one, other in zip(retriever.each(features), alone.each(features), strict=True):
        torch.testing.assert_close(one.logits, other.logits)  # training asks the members alone

    info = info_of(retriever)
    retriever.save_pretrained(tmp_path, info)
    loaded, _ = PhraseRetriever.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(features).logits, found.logits)
    assert not [name for name, _ in retriever.named_parameters() if name.startswith("classifier")]  # not trained


def test_a_classifier_that_cannot_be_used_is_refused():
    reading, findings = LinearReading(torch.zeros(3, CHANNELS), torch.zeros(3)), torch.zeros(CONFIG.queries).long()
    with pytest.raises(ValueError, match="classifier is off"):
        make(anchors=True).set_classifier(reading, findings)
    retriever = make(anchors=True, classifier=True)
    with pytest.raises(ValueError, match=r"expected 6 channels and 5 queries, got \(6,\) and \(4,\)"):
        retriever.set_classifier(reading, findings[1:])
    with pytest.raises(ValueError, match=r"expected 6 channels and 5 queries, got \(4,\) and \(5,\)"):
        retriever.set_classifier(LinearReading(torch.zeros(3, 4), torch.zeros(3)), findings)
    with pytest.raises(RarrgError, match=r"retriever\.classifier: must be false without retriever\.anchors, got True"):
        RetrieverConfig(classifier=True)


def test_images_of_a_study_share_the_mean_of_their_probabilities():
    probabilities = torch.tensor([[0.2, 0.9], [0.5, 0.5], [0.4, 0.1]])
    shared = shared_logits(probabilities.logit(), [7, 3, 7]).sigmoid()
    torch.testing.assert_close(shared, torch.tensor([[0.3, 0.5], [0.5, 0.5], [0.3, 0.5]]))


def test_standardisation():
    plain, standard = make(), make(standardise=True)
    mean, std = torch.randn(CHANNELS), torch.rand(CHANNELS) + 0.5
    features = torch.randn(2, CHANNELS, 3, 3)
    torch.testing.assert_close(standard(features).logits, plain(features).logits)
    standard.set_standardisation(mean, std)
    shifted = features * std[:, None, None] + mean[:, None, None]
    torch.testing.assert_close(standard(shifted).logits, plain(features).logits, atol=1e-5, rtol=1e-4)
    standard.set_standardisation(mean, torch.zeros(CHANNELS))
    assert torch.isfinite(standard(features).logits).all()
    with pytest.raises(ValueError, match="standardise is off"):
        plain.set_standardisation(mean, std)
    with pytest.raises(ValueError, match="expected"):
        standard.set_standardisation(mean[:2], std[:2])


def test_unit_embeddings_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = make()(torch.randn(2, CHANNELS, 3, 3))
    assert output.embeddings.dtype == torch.float32
    torch.testing.assert_close(output.embeddings.norm(dim=-1), torch.ones(2, 5))


def test_gradients_reach_every_parameter():
    retriever = make().train()
    output = retriever(torch.randn(2, CHANNELS, 3, 3))
    (output.logits.sum() + (output.embeddings * torch.randn(2, 5, TEXT)).sum()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in retriever.parameters())


def test_select_queries_falls_back_to_the_most_probable():
    logits = torch.tensor([[-3.0, -1.0, -2.0], [2.0, -9.0, 0.0], [-9.0, -9.0, 9.0]])
    selected = select_queries(logits, 0.4)
    assert selected.tolist() == [[False, True, False], [True, False, True], [False, False, True]]
    assert select_queries(torch.zeros(1, 4), 0.5).sum() == 1  # 0.5 is not above 0.5, and one of equals is taken


def test_saved_and_loaded_is_the_same(tmp_path: Path):
    retriever = make(standardise=True, position="sine2d")
    retriever.set_standardisation(torch.randn(CHANNELS), torch.rand(CHANNELS) + 0.5)
    info = info_of(retriever)
    retriever.train().save_pretrained(tmp_path / "model", info)
    loaded, found = PhraseRetriever.from_pretrained(tmp_path / "model")
    assert found == info
    assert loaded.config == retriever.config
    assert not loaded.training
    features = torch.randn(2, CHANNELS, 3, 3)
    assert torch.equal(loaded(features).embeddings, retriever.eval()(features).embeddings)
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"model.safetensors", "config.yaml", "README.md", "manifest.json"}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    retriever = make()
    retriever.save_pretrained(tmp_path / "model", info_of(retriever))
    return tmp_path / "model"


def test_another_layer_count_in_the_checkpoint_is_refused(saved: Path):
    info = yaml.safe_load((saved / "config.yaml").read_text())
    info["retriever"]["layers"] = 3
    (saved / "config.yaml").write_text(yaml.safe_dump(info))
    with pytest.raises(RarrgError, match=r"config\.yaml: changed since"):
        PhraseRetriever.from_pretrained(saved)
    reseal(saved)
    with pytest.raises(RarrgError, match=r"decoder\.layers\.2\.\S+ has shape missing"):
        PhraseRetriever.from_pretrained(saved)


def test_an_unknown_tensor_or_setting_is_refused(saved: Path):
    weights = load_file(saved / "model.safetensors")
    save_file({**weights, "stray": torch.zeros(2)}, saved / "model.safetensors")
    reseal(saved)
    with pytest.raises(RarrgError, match=r"stray has shape \(2,\), config.yaml asks for none"):
        PhraseRetriever.from_pretrained(saved)
    info = yaml.safe_load((saved / "config.yaml").read_text())
    (saved / "config.yaml").write_text(yaml.safe_dump({**info, "retriever": {**info["retriever"], "colour": 1}}))
    reseal(saved)
    with pytest.raises(RarrgError, match=r"config\.yaml, retriever: .*colour"):
        PhraseRetriever.from_pretrained(saved)
    (saved / "config.yaml").write_text(yaml.safe_dump({**info, "flavour": 1}))
    reseal(saved)
    with pytest.raises(RarrgError, match=r"config\.yaml: .*flavour"):
        PhraseRetriever.from_pretrained(saved)


def reseal(folder: Path) -> None:
    Manifest.of(folder, folders.NAME, folders.VERSION, ["model.safetensors", "config.yaml"], {}).save(folder)


def test_missing_changed_and_other_version(saved: Path, tmp_path: Path):
    for name in ("model.safetensors", "config.yaml"):
        broken = tmp_path / f"without-{name}"
        shutil.copytree(saved, broken)
        (broken / name).unlink()
        with pytest.raises(RarrgError, match=f"{name}: is missing"):
            PhraseRetriever.from_pretrained(broken)
    (saved / "README.md").write_text("My own words.")
    PhraseRetriever.from_pretrained(saved)
    Manifest.of(saved, folders.NAME, folders.VERSION, ["config.yaml"], {}).save(saved)
    with pytest.raises(RarrgError, match=r"does not list model\.safetensors"):
        PhraseRetriever.from_pretrained(saved)
    Manifest.of(saved, folders.NAME, 99, ["config.yaml"], {}).save(saved)
    with pytest.raises(RarrgError, match="version 99, expected phrase-retriever version 1"):
        PhraseRetriever.from_pretrained(saved)
    (saved / "manifest.json").unlink()
    with pytest.raises(RarrgError, match=r"no trained model.*train\.py"):
        PhraseRetriever.from_pretrained(saved)


def test_an_interrupted_rewrite_leaves_the_earlier_model(saved: Path, monkeypatch):
    other = make(feedforward=32)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "write_text", stop)
    with pytest.raises(KeyboardInterrupt):
        other.save_pretrained(saved, info_of(other))
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_model_card(tmp_path: Path):
    retriever = make()
    retriever.save_pretrained(tmp_path / "chest", info_of(retriever))
    card = (tmp_path / "chest" / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["license"] == "apache-2.0"
    assert header["library_name"] == "rarrg"
    assert "# chest" in card
    assert "Not for clinical use" in card
    for row in (
        "| data | phantom |",
        "| studies | 120 |",
        "| figures: val/loss | 1.25 |",
        "| queries | 5 |",
        "| selection threshold | 0.35 |",
        f"| `packaged:efficientnet-lite0` at 256 px | `{'a' * 16}` |",
    ):
        assert row in card
    total = sum(value.numel() for value in retriever.state_dict().values())
    assert f"{total:,} values" in card
    assert "CC-BY-NC" not in card
    assert "{{" not in card
    assert "{%" not in card

    clip = [{"spec": "hf:StanfordAIMI/XrayCLIP__vit-b-16__laion2b-s34b-b88k", "size": 512, "revision": "abc",
             "stages": [3, 4], "fingerprint": "c" * 16}]  # fmt: skip
    retriever.save_pretrained(tmp_path / "clip", info_of(retriever, vision=clip, training={}))
    card = (tmp_path / "clip" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["license"] == "cc-by-nc-4.0"
    assert "CC-BY-NC-4.0" in card
    assert "at 512 px, stages 3, 4, revision `abc`" in card
    assert "Nothing was recorded" in card


@pytest.mark.parametrize(("vision", "text", "licence"), [
    (["packaged:efficientnet-lite0", "hf:StanfordAIMI/dinov2-base-xray-224"],
     "sentence-transformers/all-mpnet-base-v2", "apache-2.0"),
    (["hf:StanfordAIMI/XrayCLIP__vit-b-16__laion2b-s34b-b88k", "copies/b"], "packaged:all-MiniLM-L6-v2",
     "cc-by-nc-4.0"),
    (["packaged:efficientnet-lite0", "copies/vit-b-16"], "packaged:all-MiniLM-L6-v2", "other"),
    (["hf:StanfordAIMI/dinov2-base-xray-224-other"], "packaged:all-MiniLM-L6-v2", "other"),
    (["packaged:efficientnet-lite0"], "copies/sentences", "other"),
])  # fmt: skip
def test_a_licence_is_stated_for_known_encoders_alone(vision: list[str], text: str, licence: str):
    info = info_of(make())
    info = dataclasses.replace(
        info, vision=[{**info.vision[0], "spec": spec} for spec in vision], text={**info.text, "encoder": text}
    )
    card = folders.model_card("chest", info, 1)
    assert yaml.safe_load(card.split("---")[1])["license"] == licence
    assert ("The licences of the encoders named above apply" in card) == (licence == "other")
    assert ("this model's weights are under Apache-2.0" in card) == (licence == "apache-2.0")


@pytest.mark.parametrize(("data", "licence"), [
    ("mimic_cxr", "PhysioNet credentialed data use agreement"), ("iu_xray", "CC BY-NC-ND 4.0"), ("phantom", None),
])  # fmt: skip
def test_the_card_names_the_licence_of_the_data(data: str, licence: str | None):
    card = folders.model_card("chest", info_of(make(), training={"data": data}), 1)
    assert ("The training data is" in card) == (licence is not None)
    assert licence is None or licence in card


def files_of(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]


class FakeHub:
    """Stands at huggingface_hub's door: keeps what is uploaded and serves it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: dict[str, bool] = {}
        self.asked: list[tuple[str, str | None]] = []

    def create_repo(self, repo_id: str, private: bool, exist_ok: bool) -> str:
        assert exist_ok
        self.made[repo_id] = private
        return f"https://hub.example/{repo_id}"

    def upload_folder(
        self,
        repo_id: str,
        folder_path: Path,
        allow_patterns: list[str],
        delete_patterns: list[str],
        commit_message: str,
    ) -> None:
        there, here = self.root / repo_id, Path(folder_path)
        for path in filter_repo_objects(files_of(there), allow_patterns=delete_patterns):
            (there / path).unlink()
        for path in filter_repo_objects(files_of(here), allow_patterns=allow_patterns):
            (there / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here / path, there / path)

    def snapshot_download(self, repo_id: str, revision: str | None, allow_patterns: list[str]) -> str:
        self.asked.append((repo_id, revision))
        if repo_id not in self.made:
            raise FileNotFoundError(f"404: {repo_id}\nsecond line")
        return str(self.root / repo_id)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch) -> FakeHub:
    hub = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(folders, "HfApi", lambda: hub)
    monkeypatch.setattr(folders, "snapshot_download", hub.snapshot_download)
    return hub


def test_to_the_hub_and_back(hub: FakeHub):
    retriever = make()
    info = info_of(retriever)
    assert retriever.push_to_hub("someone/chest", info) == "https://hub.example/someone/chest"
    assert hub.made == {"someone/chest": True}
    assert "# chest" in (hub.root / "someone" / "chest" / "README.md").read_text()
    loaded, found = PhraseRetriever.from_pretrained("someone/chest", revision="v1")
    assert hub.asked == [("someone/chest", "v1")]
    assert found == info
    features = torch.randn(1, CHANNELS, 2, 2)
    assert torch.equal(loaded(features).logits, retriever(features).logits)


def test_adapted_encoders_go_to_the_hub_with_the_folder(hub: FakeHub, tiny_timm: Path, tmp_path: Path):
    folder, retriever = tmp_path / "model", make()
    before = {"spec": str(tiny_timm), "size": 64, "revision": None, "stages": None, "fingerprint": "c" * 16}
    info = info_of(retriever)
    info = dataclasses.replace(info, vision=folders.keep_encoders(folder, [*info.vision, before], [None, "timm:a"]))
    retriever.save_pretrained(folder, info)
    with pytest.raises(RarrgError, match="upload its folder"):
        retriever.push_to_hub("someone/chest", info)
    folders.upload_model(folder, "someone/chest", private=True)
    assert set(files_of(hub.root / "someone" / "chest")) == set(files_of(folder))
    there = model_folder("someone/chest")
    first, second = folders.encoders_of(there, PhraseRetriever.from_pretrained("someone/chest")[1])
    assert (first.spec, Path(second.spec).parent) == ("packaged:efficientnet-lite0", there / "encoders")

    shutil.rmtree(folder / "encoders")
    retriever.save_pretrained(folder, info_of(retriever))
    folders.upload_model(folder, "someone/chest", private=True)
    assert not [path for path in files_of(hub.root / "someone" / "chest") if path.startswith("encoders/")]


def test_hub_refusals_are_one_line(hub: FakeHub, monkeypatch):
    with pytest.raises(RarrgError, match=r"someone/else: cannot be had .*404: someone/else\).*hf auth login") as caught:
        PhraseRetriever.from_pretrained("someone/else")
    assert "\n" not in str(caught.value)

    def refuse(*_, **__):
        raise PermissionError("401 Unauthorized")

    monkeypatch.setattr(hub, "create_repo", refuse)
    with pytest.raises(RarrgError, match=r"someone/chest: cannot be uploaded \(401 Unauthorized\).*hf auth login"):
        make().push_to_hub("someone/chest", info_of(make()))


def test_a_hub_out_of_reach_is_one_line(saved: Path, monkeypatch):
    """The client's own error, whichever client this release of huggingface_hub has."""
    monkeypatch.setattr(folders, "HfApi", lambda: HfApi(endpoint="http://127.0.0.1:9", token=False))
    with pytest.raises(RarrgError, match=r"someone/chest: cannot be uploaded \(.*refused.*\)") as caught:
        folders.upload_model(saved, "someone/chest", private=True)
    assert "\n" not in str(caught.value)

    def download(*_, **__):
        get_session().get("http://127.0.0.1:9")

    monkeypatch.setattr(folders, "snapshot_download", download)
    with pytest.raises(RarrgError, match=r"someone/chest: cannot be had .*refused"):
        model_folder("someone/chest")


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(hub: FakeHub, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("runs/demo", "models/mine", "./demo", "demo", "a/b/c", "/nowhere", tmp_path / "nowhere"):
        with pytest.raises(RarrgError, match=r"no such folder.*train\.py"):
            model_folder(name)
    assert hub.asked == []


def test_another_encoder_is_refused_and_both_sides_named():
    expected = {"spec": "hf:a/b", "size": 518, "revision": "r1", "fingerprint": "1" * 16}
    check_reference(expected, {**expected, "spec": "copies/b", "revision": None})
    with pytest.raises(RarrgError) as caught:
        check_reference(expected, {**expected, "size": 224, "revision": None, "fingerprint": "2" * 16})
    message = str(caught.value)
    assert "spec hf:a/b, size 518, revision r1, fingerprint 1111111111111111" in message
    assert "spec hf:a/b, size 224, fingerprint 2222222222222222" in message
