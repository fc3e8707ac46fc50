"""Every YAML key that bpuc knows, and what becomes of it.

Keys of both generations of the vendor's tools (hb_mapper for X3, J5, X5; hb_compile for S100) and our own under
`bpuc:`. A key is taken, noted (it has no effect here, and a note says why) or refused with the reason; what is not in
this file is an error. docs/yaml-keys.md is written from this file by `python -m bpuc.config.document`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bpuc.config import values

IMAGE_TYPES = ("rgb", "bgr", "yuv444", "gray", "featuremap")
RUNTIME_TYPES = ("rgb", "bgr", "yuv444", "nv12", "gray", "featuremap")
LAYOUTS = ("NCHW", "NHWC")
REMOVABLE = ("Quantize", "Transpose", "Dequantize", "Cast", "Reshape", "Softmax")

Text = Annotated[str, BeforeValidator(values.text)]
Names = Annotated[tuple[str, ...], BeforeValidator(values.names)]
Words = Annotated[tuple[str, ...], BeforeValidator(values.words)]
Number = Annotated[float, BeforeValidator(values.number)]
Whole = Annotated[int, BeforeValidator(values.no_flag)]
Amount = Annotated[float, BeforeValidator(values.no_flag)]
Fraction = Annotated[float, BeforeValidator(values.fraction)]
Scale = Annotated[float, BeforeValidator(values.scale)]
Dtype = Annotated[str, BeforeValidator(values.dtype)]
Shape = Annotated[tuple[int, ...], BeforeValidator(values.shape)]
Numbers = Annotated[tuple[float, ...], BeforeValidator(values.numbers)]
ShapePerInput = Annotated[tuple[tuple[int, ...], ...], BeforeValidator(values.shape_per_input)]
NumbersPerInput = Annotated[tuple[tuple[float, ...], ...], BeforeValidator(values.numbers_per_input)]
TypesTrain = Annotated[tuple[str, ...], BeforeValidator(values.each(values.one_of(IMAGE_TYPES)))]
TypesRt = Annotated[tuple[str, ...], BeforeValidator(values.each(values.one_of(RUNTIME_TYPES)))]
RemovableTypes = Annotated[tuple[str, ...], BeforeValidator(values.each(values.one_of(REMOVABLE)))]
Layouts = Annotated[tuple[str, ...], BeforeValidator(values.each(values.one_of(LAYOUTS, upper=True)))]


def taken(doc: str, **limits: Any) -> Any:
    """A key that bpuc uses."""
    return Field(default=None, description=doc, json_schema_extra={"fate": "taken"}, **limits)


def noted(why: str, *usual: Any) -> Any:
    """A key without effect here; `usual` are the values that mean nothing and deserve no note."""
    return Field(default=None, description=why, json_schema_extra={"fate": "noted", "usual": [str(u) for u in usual]})


def refused(why: str) -> Any:
    """A key that asks for what bpuc does not do."""
    return Field(default=None, description=why, json_schema_extra={"fate": "refused"})


class Section(BaseModel):
    """Base of the sections."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelParameters(Section):
    """The model and where the results go."""

    onnx_model: Text | None = taken("path of the float ONNX model")
    caffe_model: Any = refused("only ONNX models are read; convert the Caffe model to ONNX first")
    prototxt: Any = refused("only ONNX models are read; convert the Caffe model to ONNX first")
    march: Text | None = taken("the machine: bernoulli2, bayes, bayes-e, nash-e, nash-m, nash-p")
    working_dir: Text | None = taken("folder of the results; `model_output` when only a prefix is given")
    output_model_file_prefix: Text | None = taken(
        "name of the results without ending; `model` when only a folder is given"
    )
    node_info: Any = taken(
        "`name:int16;name:int16`, or for each node a mapping with ON (BPU, CPU), InputType, InputType0.., OutputType "
        "(int8, int16); wins over run_on_cpu and run_on_bpu"
    )
    set_node_data_type: Any = taken("`name:int16;name:int16`, the older form of node_info")
    output_nodes: Names | None = taken("nodes or tensors whose results are the outputs, in place of the model's own")
    layer_out_dump: Any = noted("`bpuc run --tensors all` gives every tensor", False)
    remove_node_type: RemovableTypes | None = taken(
        "ops to delete at inputs and outputs: " + ", ".join(REMOVABLE) + "; without Dequantize an output is integers"
    )
    remove_node_name: Names | None = taken("the same by node name")
    debug_mode: Any = noted("samples are streamed and not dumped; `--dump-dir` writes the graph after every pass")
    log_level: Any = noted("`--quiet` is the only setting of the log")
    enable_vpu: Any = noted("units of the machine come from the target's description", True)
    enable_spu: Any = noted("units of the machine come from the target's description", True)


class InputParameters(Section):
    """The inputs: `;` between inputs, in the order of input_name."""

    input_name: Names | None = taken("names of the model's inputs; needed when there are several")
    input_type_train: TypesTrain | None = taken("what the float model takes: " + ", ".join(IMAGE_TYPES))
    input_layout_train: Layouts | None = taken("NCHW or NHWC")
    input_type_rt: TypesRt | None = taken(
        "what the board delivers; but for featuremap the compiled input is uint8 in that format (see below)"
    )
    input_layout_rt: Layouts | None = taken("NCHW or NHWC, on the board")
    input_shape: ShapePerInput | None = taken("such as 1x3x224x224; fixes dynamic sizes")
    norm_type: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(
            values.each(values.one_of(("no_preprocess", "data_mean", "data_scale", "data_mean_and_scale")))
        ),
    ] = taken("which of mean_value and scale_value count; without it, those that are given")
    mean_value: NumbersPerInput | None = taken("one number or one a channel; y = (x - mean) * scale")
    scale_value: NumbersPerInput | None = taken("one number or one a channel; y = (x - mean) * scale")
    std_value: NumbersPerInput | None = taken("one number or one a channel, in place of scale_value: scale = 1 / std")
    input_space_and_range: Annotated[
        tuple[str, ...] | None, BeforeValidator(values.each(values.one_of(("regular", "bt601_video"))))
    ] = taken("of nv12: regular (0 to 255) or bt601_video (16 to 235)")
    input_batch: Annotated[int, BeforeValidator(values.batch)] | None = taken(
        "samples that a run takes at once, 1 to 4096 (128 on bernoulli2); the model's own batch is 1 then (see below)"
    )
    separate_batch: Annotated[bool, BeforeValidator(values.flag)] | None = taken(
        "whether a run takes each sample of a batch as an input of its own, `NAME_0`, `NAME_1` and so on"
    )
    separate_name: Names | None = taken("inputs of which that holds, in place of all")


class CalibrationParameters(Section):
    """Calibration."""

    cal_data_dir: Names | None = taken(
        "folders of samples, one an input; their files are not normalized yet (see below); on nash, compiling without "
        "it takes random data, as with calibration_type skip"
    )
    cal_data_type: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(values.each(values.one_of(("float32", "uint8", "int8", "int16", "int32")))),
    ] = taken("element type of raw files; without it float32, or uint8 where the files have that size")
    calibration_type: Literal["default", "max", "kl", "mix", "skip", "load"] | None = taken(
        "max: min_max, or percentile with max_percentile; kl; mix; skip: random data and min_max; default: the search "
        "of the observer `default`, and then thresholds by their readers; load: the scales in the model file (Q/DQ)"
    )
    max_percentile: Fraction | None = taken("0.5 to 1, with calibration_type max")
    run_on_cpu: Names | None = taken("nodes or op types that run on the CPU")
    run_on_bpu: Names | None = taken("nodes or op types that run on the BPU where it can")
    optimization: Words | None = taken(
        "set_model_output_int8, set_model_output_int16, set_all_nodes_int16, set_{Op}_input_int8, "
        "set_{Op}_output_int16, bias_correction and so on are taken; asymmetric, lstm_batch_last and run_fast have no "
        "effect here"
    )
    per_channel: Annotated[bool, BeforeValidator(values.flag)] | None = taken(
        "true: activations have one scale a channel where their readers take it into their weights, as `bpuc: "
        "channel_scales`; elsewhere one a tensor"
    )
    preprocess_on: Any = noted("images are always read, resized and converted", False)
    quant_config: Any = taken(
        "a mapping or a JSON file: all_node_type, model_output_type, calibration_type, max_percentile, num_bin, "
        "max_num_bin (of kl) and per_channel of the activation, bias_correction of the weight, similarity of "
        "modelwise_search, qtype and ON of ops and nodes, inputs, outputs and qtype of subgraphs, with int8 and int16; "
        "other dtypes and keys get a note"
    )


class CompilerParameters(Section):
    """The compiler."""

    compile_mode: Literal["latency", "bandwidth", "balance"] | None = taken("latency, bandwidth or balance")
    optimize_level: Literal["O0", "O1", "O2", "O3"] | None = taken("effort of the compiler, O0 to O3")
    core_num: Whole | None = taken("number of BPU cores", ge=1, le=4)
    balance_factor: Amount | None = taken("with balance: 0 is bandwidth, 100 latency [50]", ge=0, le=100)
    debug: Any = noted("the binary always holds what the reports need", True, False)
    input_source: dict[Text, Text] | None = taken(
        "input -> ddr, pyramid or resizer; the last two, for nv12 and gray, hand over pixels at no time; without it by "
        "input_type_rt"
    )
    max_time_per_fc: Any = noted("the simulated program is not pre-empted", 0)
    jobs: Any = noted("compiling is quick enough in one process")
    advice: Any = noted("`bpuc perf` names what is slow and why", 0)
    cache_mode: Any = noted("nothing is cached", "disable")
    cache_path: Any = noted("nothing is cached")
    max_l2m_size: Any = noted("memory sizes come from the target's description", 0)
    ability_entry: Any = noted("it is meant for the vendor's compiler")
    extra_params: Any = noted("it is meant for the vendor's compiler")
    hbdk3_compatible_mode: Any = noted("it is meant for the vendor's compiler")


class PreprocessSection(Section):
    """How images become samples."""

    resize: Literal["stretch", "letterbox", "crop"] | None = taken(
        "stretch (the default); letterbox keeps the proportions and pads; crop keeps them and cuts around the centre"
    )
    interpolation: (
        Literal[
            "bilinear",
            "nearest",
            "bicubic",
            "area",
            "opencv_bilinear",
            "opencv_nearest",
            "opencv_bicubic",
            "opencv_area",
        ]
        | None
    ) = taken("bilinear is the default; the first four are Pillow's, with antialiasing, the others OpenCV's, without")
    pad_value: Number | None = taken("colour of the border of letterbox, 0 to 255; 114 without it", ge=0, le=255)
    arrays: Literal["ready", "raw"] | None = taken(
        "whether arrays in files are the model's inputs (ready) or want mean and scale (raw); without it raw for "
        "cal_data_dir and ready for all else"
    )


class QuantizeOp(Section):
    """What is asked for one name."""

    input: Dtype | None = taken("int8 or int16, of the operands")
    weight: Dtype | None = taken("int8 or int16, of constant weights (int16 on nash)")
    output: Dtype | None = taken("int8 or int16, of the results")
    observer: Text | None = taken("observer of the results")
    observer_opt: dict[Text, Number] | None = taken("its options")
    fixed_scale: Scale | None = taken("scale of the result")
    high_precision: bool | None = taken("whether the accumulator is left as the result, where it can be")
    share_observer_with: Text | None = taken("a tensor or node with whose result the result shares its range")
    device: Annotated[str, BeforeValidator(values.one_of(("BPU", "CPU"), upper=True))] | None = taken("BPU or CPU")


class QuantizeSection(Section):
    """The qconfig: templates, and what single ops and tensors are asked for."""

    templates: Any = taken(
        "default, int16 or {sensitive: {table: FILE or list, topk: N or ratio: R}}, or a list of these, the first with "
        "priority: default leaves accumulators as outputs, says where it cannot, and has the grids of GridSample in "
        "int16; sensitive has the worst ops of a table (op_name, sensitive_type, sensitivity) in int16"
    )
    ops: dict[Text, QuantizeOp] | None = taken(
        "tensor, node, pattern (with `*`, `?`) or op type -> keys as below; the more exact name wins"
    )


class BpucSection(Section):
    """Our own keys, named as the options of the command line."""

    data: Text | None = taken("as --data")
    output: Text | None = taken("as -o of compile")
    observer: Text | None = taken("one of docs/observers.md; wins over calibration_type")
    observer_opt: dict[Text, Number] | None = taken("options of the observer, such as {percentile: 99.9}")
    dtype: dict[Text, Dtype] | None = taken("tensor, node or op type -> int8 or int16; wins over node_info")
    fixed_scale: dict[Text, Scale] | None = taken("tensor -> scale")
    share_scales: Literal["auto", "always", "never"] | None = taken("whether the tensors of a concat share one scale")
    share: Names | None = taken("tensors that take their concat's scale, whatever they lose")
    keep_scale: Names | None = taken("tensors that keep their own scale at concats")
    qat_scales: Literal["fold", "strict"] | None = taken("how scales in the model file (Q/DQ) are kept")
    max_bits_lost: Amount | None = taken(
        "most bits that other readers of a tensor may lose to a shared scale; without it 1.5, more where measured", ge=0
    )
    equalize: bool | None = taken("whether range ratios of concat branches move into weights")
    high_precision_outputs: bool | None = taken(
        "whether a last Conv or MatMul leaves its int32 accumulator; true without it"
    )
    effort: Whole | None = taken("work spent on accuracy, 0 to 3; 1 without it", ge=0, le=3)
    tune_thresholds: bool | None = taken("thresholds by the error at their readers")
    channel_scales: bool | None = taken("scales a channel where they are free")
    bias_correction: bool | None = taken("whether biases take the mean rounding error")
    adaptive_rounding: bool | None = taken("weights rounded by the error of the result, from effort 2 on")
    weight_clipping: bool | None = taken("scales of weights by the error of the result, from effort 2 on")
    auto_int16: bool | None = taken("int16 where 8 bits cost most, from effort 1 on")
    max_latency_loss: Amount | None = taken("what automatic int16 may cost, in percent of the latency", ge=0)
    template: Literal["default", "int16"] | None = taken("as one of quantize: templates")
    quantize: QuantizeSection | None = taken("the qconfig: templates and rules")
    run_on_cpu: Names | None = taken("as in calibration_parameters")
    run_on_bpu: Names | None = taken("as in calibration_parameters")
    input_shape: dict[Text, Shape] | None = taken("input -> shape, such as {images: 1x3x640x640}")
    input_value: dict[Text, Number] | None = taken("input of one number -> its value, a constant then: {sr: 16000}")
    dump_dir: Text | None = taken("folder for the graph as text after every pass")
    keep_stages: Text | None = taken("folder for the ONNX file of each stage")
    preprocess: PreprocessSection | None = taken("how images become samples")


class Document(Section):
    """A whole file."""

    model_parameters: ModelParameters = ModelParameters()
    input_parameters: InputParameters = InputParameters()
    calibration_parameters: CalibrationParameters = CalibrationParameters()
    compiler_parameters: CompilerParameters = CompilerParameters()
    custom_op: Any = refused("custom operators are not supported; build the model from ONNX operators")
    bpuc: BpucSection = BpucSection()
