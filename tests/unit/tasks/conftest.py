"""One thread, one seed, and torchvision beside a build of torch that lacks its operators."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_and_one_seed():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def torchvision_operators():
    """Declare what the CPU build of torchvision does not bring, so that it can be imported."""
    libraries = []
    for name, schema in (
        ("nms", "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
        ("qnms", "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"),
    ):
        if not hasattr(torch.ops.torchvision, name):
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(schema)
            libraries.append(library)
    return libraries
