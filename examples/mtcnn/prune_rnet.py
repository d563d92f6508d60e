"""Cut a trained face detector, judged by a function of one's own.

R-Net is the second stage of MTCNN: it tells faces from other things in pictures of 24 by
24 pixels. Its trained weights come with the package facenet-pytorch, and 200 real
pictures, half of them faces, with scikit-image. prunus knows nothing of either: it is
given a model, an example of its input, and `evaluate`.

    pip install --no-deps facenet-pytorch scikit-image
    python prune_rnet.py
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import nn

import prunus


class RNet(nn.Module):
    """As in facenet-pytorch: two outputs, where the face is and how likely it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 28, 3)
        self.prelu1 = nn.PReLU(28)
        self.pool1 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv2 = nn.Conv2d(28, 48, 3)
        self.prelu2 = nn.PReLU(48)
        self.pool2 = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.conv3 = nn.Conv2d(48, 64, 2)
        self.prelu3 = nn.PReLU(64)
        self.dense4 = nn.Linear(576, 128)
        self.prelu4 = nn.PReLU(128)
        self.dense5_1 = nn.Linear(128, 2)
        self.dense5_2 = nn.Linear(128, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.pool2(self.prelu2(self.conv2(x)))
        x = self.prelu3(self.conv3(x))
        # The weights are from Caffe, which unrolls pictures the other way round.
        x = x.permute(0, 3, 2, 1).contiguous()
        x = self.prelu4(self.dense4(x.view(x.shape[0], -1)))
        return self.dense5_2(x), self.dense5_1(x).softmax(dim=1)


def inside(package: str, path: str) -> Path:
    """Return a file that is part of a package, which need not be importable."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise SystemExit(f"needs {package}: pip install --no-deps facenet-pytorch scikit-image")
    return Path(next(iter(found.submodule_search_locations))) / path


def rnet() -> RNet:
    model = RNet()
    weights = inside("facenet_pytorch", "data/rnet.pt")
    model.load_state_dict(torch.load(weights, weights_only=True))
    return model.eval()


def pictures() -> tuple[torch.Tensor, np.ndarray]:
    """Return the pictures as the detector wants them, and which of them are faces."""
    grey = np.load(inside("skimage", "data/lfw_subset.npy"))[:, :24, :24]
    colour = torch.tensor(grey, dtype=torch.float32)[:, None].expand(-1, 3, -1, -1)
    return (colour * 255 - 127.5) / 128, np.arange(len(grey)) < 100


PICTURES, IS_FACE = pictures()


@torch.no_grad()
def evaluate(model: nn.Module) -> float:
    """Return how often a face is called more likely a face than something else is."""
    faces = model(PICTURES)[1][:, 1].numpy()
    wins = np.sign(faces[IS_FACE][:, None] - faces[~IS_FACE][None, :])
    return float((wins.mean() + 1) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("rnet"), help="Where the files go.")
    parser.add_argument("--macs", type=float, default=0.5, help="Share of MACs to keep.")
    out = parser.parse_args()
    out.out.mkdir(parents=True, exist_ok=True)

    model, example = rnet(), torch.zeros(1, 3, 24, 24)
    print(f"R-Net tells faces with {evaluate(model):.4f}")
    study = prunus.analyze(model, example, evaluate, study=out.out / "rnet.study")
    print(study.table())

    plan = study.plan(macs=out.macs)
    plan.save(out.out / "plan.json")
    pruned = prunus.prune(model, example, plan)
    before, after = pruned.before, pruned.after
    print(
        f"{plan.note}\n{after.macs / before.macs:.1%} of the MACs and "
        f"{after.numel / before.numel:.1%} of the parameters are left; the cut model differs from "
        f"the blinded original by {pruned.error:.0e}, and tells faces with "
        f"{evaluate(pruned.model):.4f}, without any training"
    )
    prunus.save(pruned, out.out / "small.safetensors")
    again = prunus.load(RNet().eval(), out.out / "small.safetensors")
    assert evaluate(again) == evaluate(pruned.model)
    print(f"saved: {out.out / 'small.safetensors'}")


if __name__ == "__main__":
    main()
