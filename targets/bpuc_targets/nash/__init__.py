"""nash-e, nash-m and nash-p, the BPUs of S100, S100P and S600."""
