"""Retrieved phrases to a report."""
