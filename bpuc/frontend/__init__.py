"""From ONNX files to graphs and back."""

from bpuc.frontend.onnx_export import export_float, export_op
from bpuc.frontend.onnx_import import ImportedModel, import_model

__all__ = ["ImportedModel", "export_float", "export_op", "import_model"]
