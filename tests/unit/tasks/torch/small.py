"""A small network and short trainings on the scanned digits."""

import torch
from torch import nn

from prunus.tasks.settings import DataSettings, TrainSettings
from prunus.tasks.torch.data import load_data

__all__ = ["Small", "digits", "long", "settings", "small", "varied"]


class Small(nn.Module):
    """Has what makes going on hard: batch norm, dropout, a weight that does not learn."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 16, classes)
        self.scale = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x):
        y = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        return self.head(self.drop(y.flatten(1))) * self.scale


def small(classes=10, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Small(classes)


def digits(**given):
    given = {"batch_size": 128, "workers": 0, "channels": 1, **given}
    return load_data(DataSettings(kind="digits", **given))


def settings(**given):
    return TrainSettings(**{"epochs": 2, "learning_rate": 0.01, **given})


def varied():
    """Return data that is other in each epoch, read by threads."""
    return digits(augment={"crop": "shift", "padding": 1, "flip": True}, workers=2)


def long():
    """Return settings under which every kind of state matters, with frequent checkpoints."""
    return settings(epochs=3, ema_decay=0.95, checkpoint_every=2, label_smoothing=0.1)
