"""The whole flow once, on digits, for all tests of commands that come after others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from prunus.cli.main import app
from prunus.tasks.example import example

CHOSEN = {
    "model": {"name": "prunus.tasks.digits:network"},
    "data": {"kind": "digits", "channels": 1, "batch_size": 64},
    "train": {"epochs": 2, "learning_rate": 0.003},
    "analysis": {"ratios": (0.25, 0.5, 0.75)},
    "prune": {"recalibrate": 5},
    "finetune": {"epochs": 2, "learning_rate": 0.003},
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def good(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def error_of(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stderr.splitlines()[-2].startswith("error: ") or "error: " in result.stderr
    return result.stderr[result.stderr.index("error: ") :]


@dataclass(frozen=True)
class Flow:
    """What each command said, and the folder."""

    folder: Path
    train: Result
    analyze: Result
    plan: Result

    @property
    def config(self) -> str:
        return str(self.folder / "prunus.yaml")

    @property
    def study(self) -> Path:
        return self.folder / "runs" / "analysis.study"

    @property
    def plan_file(self) -> Path:
        return self.folder / "runs" / "plan.json"


@pytest.fixture(scope="session")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Flow:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("flow")
    config = folder / "prunus.yaml"
    config.write_text(example(CHOSEN))
    return Flow(
        folder,
        good("train", config),
        good("analyze", config),
        good("plan", config, "--macs", "0.4", "--align", "4"),
    )
