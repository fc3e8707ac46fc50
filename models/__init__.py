"""The project's own small models: build scripts with fixed seeds, the ONNX files they make, and the demo.

Not packaged. Run ``python -m models.build`` from the top folder.
"""
