"""Which channels of a group go first."""
