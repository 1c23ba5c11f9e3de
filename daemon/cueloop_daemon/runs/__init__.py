"""Runs: durable programs that outlive the daemon (docs/architecture.md, "Runs")."""
