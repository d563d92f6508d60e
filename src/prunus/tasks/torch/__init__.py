"""What needs PyTorch among the tasks: data as tensors, weights, the trainer, figures."""
