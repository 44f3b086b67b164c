"""Reports to key phrases."""
