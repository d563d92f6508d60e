"""What is shipped for testing rules and backends."""
