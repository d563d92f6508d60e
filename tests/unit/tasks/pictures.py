"""Small image folders, written where a test wants them."""

import numpy as np
from PIL import Image

COLOURS = {"blue": (0, 0, 200), "green": (0, 200, 0), "red": (200, 0, 0)}


def folder(root, per_class=4, size=(12, 16)):
    """Write `per_class` images of each colour, each of its own brightness."""
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True)
        for k in range(per_class):
            array = np.full((*size, 3), np.array(colour) + 10 * k, np.uint8)
            Image.fromarray(array).save(root / name / f"{k}.png")
    return root
