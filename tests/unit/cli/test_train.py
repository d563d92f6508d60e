"""`prunus train`: what it says and leaves, and how it goes on."""

from __future__ import annotations

import json

from .conftest import error_of, good


def test_what_it_says_and_leaves(flow):
    lines = flow.train.stdout.splitlines()
    assert lines[0].startswith("trained on digits for 2 epochs, ")
    assert ": top1 0." in lines[0]
    assert lines[1] == f"weights: {flow.folder / 'runs' / 'trained.safetensors'}"
    assert lines[-1] == f"next: prunus analyze {flow.config}"
    assert (flow.folder / "runs" / "trained.safetensors").is_file()
    assert (flow.folder / "runs" / "train" / "checkpoint.safetensors").is_file()
    assert "epoch 2 of 2" in flow.train.stderr


def test_a_finished_training_is_not_done_again(flow):
    found = json.loads(good("train", flow.config, "--json").stdout)
    assert found["resumed_from"] == found["epochs"] * 23  # batches of 64
    assert 0 < found["metric"] <= 1
    assert found["next"] == f"prunus analyze {flow.config}"


def test_a_key_is_set_on_the_command_line(flow, tmp_path):
    found = json.loads(
        good(
            "train", flow.config, "-o", "train.epochs=1", "-o", f"folder={tmp_path}", "--json"
        ).stdout
    )
    assert found["epochs"] == 1
    assert found["weights"] == str(tmp_path / "trained.safetensors")


def test_what_cannot_be_trained(flow, tmp_path):
    assert "there is no key 'train.epoch'" in error_of("train", flow.config, "-o", "train.epoch=1")
    assert "'nowhere.yaml' cannot be read" in error_of("train", "nowhere.yaml")
    assert "is no YAML file, and this command needs one" in error_of("analyze", "a:b")
    assert "sets nothing" in error_of("train", flow.config, "-o", "train.epochs")
    (tmp_path / "bare.yaml").write_text("model:\n  name: prunus.tasks.digits:network\n")
    assert "no section 'data'\n  fix: say where" in error_of("train", tmp_path / "bare.yaml")
