"""Graph passes of bpuc, one file a pass."""
