"""gepa."""
