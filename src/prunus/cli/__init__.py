"""What people type: one file and one call a command."""
