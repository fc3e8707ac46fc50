"""Scheduling: which bytes are on chip when, and in which pieces instructions run.

For each BPU segment, `plan` decides what stays on chip and which instructions go stripe by stripe, and `emit` writes
the steps. Buffers still have virtual addresses here, so the arena can be planned around groups that run together.
"""

from bpuc.lower.schedule.schedule import Draft, Scheduling, schedule

__all__ = ["Draft", "Scheduling", "schedule"]
