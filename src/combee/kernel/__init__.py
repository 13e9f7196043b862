"""The whole algorithm: it knows no model, no file format and no command line (docs/kernel.md)."""
