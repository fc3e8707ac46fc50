"""The use cases as plain functions: calibrate, compile, check."""
