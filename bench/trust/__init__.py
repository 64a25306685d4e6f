"""Whether a model computes here what it should, asked before any score is believed."""
