"""What was measured, in one file: cells, the SQLite store, merge, import and export."""
