"""From a budget to ratios: what to cut, as a file that people can read."""
