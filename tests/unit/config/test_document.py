"""docs/yaml-keys.md is what the schema says, and the schema knows all of the vendor's keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from bpuc.config import load_config
from bpuc.config.document import yaml_keys
from bpuc.config.schema import Document

# The keys of both generations, as their manuals list them.
VENDOR = {
    "model_parameters": """onnx_model caffe_model prototxt march output_model_file_prefix working_dir layer_out_dump
        output_nodes remove_node_type remove_node_name set_node_data_type node_info debug_mode log_level enable_vpu
        enable_spu""",
    "input_parameters": """input_name input_type_train input_layout_train input_type_rt input_layout_rt
        input_space_and_range input_shape input_batch separate_batch separate_name norm_type mean_value scale_value
        std_value""",
    "calibration_parameters": """cal_data_dir cal_data_type preprocess_on calibration_type max_percentile per_channel
        run_on_cpu run_on_bpu optimization quant_config""",
    "compiler_parameters": """compile_mode balance_factor debug core_num optimize_level input_source max_time_per_fc
        jobs advice cache_mode cache_path max_l2m_size ability_entry extra_params hbdk3_compatible_mode""",
}
KEYS = [(s, k) for s, keys in VENDOR.items() for k in keys.split()]


def test_the_page_is_fresh():
    page = Path(__file__).parents[3] / "docs" / "yaml-keys.md"
    assert page.read_text(encoding="utf-8") == yaml_keys(), "run: python -m bpuc.config.document > docs/yaml-keys.md"


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_key_of_the_vendor_has_a_fate_and_a_reason(section, key):
    info = Document.model_fields[section].annotation.model_fields[key]
    assert info.json_schema_extra["fate"] in ("taken", "noted", "refused")
    assert len(info.description) > 8
    assert f"| `{key}` | {info.json_schema_extra['fate']} | " in yaml_keys()


@pytest.mark.parametrize(("section", "key"), KEYS)
def test_every_key_may_stand_blank(tmp_path, section, key):
    path = tmp_path / "c.yaml"
    for blank in ("", "''", "{}"):
        path.write_text(f"{section}:\n  {key}: {blank}\n")
        assert load_config(path).notes == ()
