"""Which cells are measured, in which order and on how many samples."""
