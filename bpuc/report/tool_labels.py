"""The words of the accuracy tools' pages in English and Chinese; shared words are in `labels`."""

from __future__ import annotations

# key -> (English, Chinese)
TOOL_LABELS: dict[str, tuple[str, str]] = {
    "t_simulated": ("Simulated integers", "仿真整数"),
    "t_simulated_why": (
        "the integers are those of the simulated program; nothing on this page was measured on a chip",
        "整数来自仿真程序，本页数据均非芯片实测",
    ),
    "t_float": ("Float model", "浮点模型"),
    "t_float_why": ("the float model run on the given samples", "在给定样本上运行浮点模型"),
    "t_rounded": ("Rounded in float", "浮点中模拟量化"),
    "t_rounded_why": (
        "the float model with values rounded to their scales; nothing on this page was measured on a chip",
        "对浮点模型的数值按其 scale 舍入，本页数据均非芯片实测",
    ),
    "t_samples": ("samples", "样本"),
    "t_sample": ("Sample", "样本"),
    "t_compare": ("Layer by layer", "逐层对比"),
    "t_compare_curve": (
        "SQNR along the model, dB. Solid: integers against float, with all that came before. Dashed: what rounding the "
        "float values to the tensor's own scale would leave. Where the solid line falls and the dashed one does not, "
        "the error comes from operands and weights; where both fall, from the tensor's scale.",
        "沿模型的 SQNR（dB）。实线：整数相对浮点，含此前累积误差。虚线：仅按该张量自身 scale 舍入所剩。"
        "实线下降而虚线不降时，误差来自输入与权重；两者都降时来自该张量的 scale。",
    ),
    "t_hints": ("Where the error jumps", "误差突增之处"),
    "t_no_hints": ("No op adds an error that stands out.", "没有误差突出的算子。"),
    "t_tensors": ("Tensors", "张量"),
    "t_tensor": ("Tensor", "张量"),
    "t_cosine": ("Cosine", "余弦"),
    "t_sqnr": ("SQNR, dB", "SQNR (dB)"),
    "t_own": ("Own scale, dB", "自身 scale (dB)"),
    "t_mse": ("MSE", "MSE"),
    "t_l1": ("L1", "L1"),
    "t_max_abs": ("Max. error", "最大误差"),
    "t_relative": ("Relative", "相对误差"),
    "t_clipped": ("Clipped", "截断"),
    "t_range": ("Range in float", "浮点范围"),
    "t_metrics_why": (
        "L1 is the mean magnitude of the error; relative: its root mean square over that of the float values.",
        "L1 为误差绝对值的均值；相对误差为误差的均方根除以浮点值的均方根。",
    ),
    "t_channels": ("Channels of the worst tensors", "误差最大张量的各通道"),
    "t_channel": ("Channel", "通道"),
    "t_reach": ("Largest value", "最大幅值"),
    "t_stats": ("Values of tensors", "张量数值"),
    "t_stats_curve": (
        "Reach of the results along the model: largest magnitude (solid) and standard deviation (dashed), in octaves "
        "(log2). Far apart, int8 has few steps for typical values.",
        "沿模型的结果幅值：最大幅值（实线）与标准差（虚线），以 log2 表示。两者相距远时，int8 对典型值的分辨率低。",
    ),
    "t_role": ("Role", "类别"),
    "t_min": ("Min.", "最小"),
    "t_max": ("Max.", "最大"),
    "t_mean": ("Mean", "均值"),
    "t_std": ("Std.", "标准差"),
    "t_kurtosis": ("Kurtosis", "峰度"),
    "t_zeros": ("Zeros", "零值"),
    "t_p": ("99.8 % within", "99.8 % 落在"),
    "t_histogram": ("Histogram", "直方图"),
    "t_histogram_why": (
        "Heights are logarithms of counts, from the least to the largest value; the line marks 0. Kurtosis is 3 for a "
        "normal distribution; large values mean outliers.",
        "高度为计数的对数，横轴从最小值到最大值，竖线为 0。正态分布峰度为 3，大值表示有离群点。",
    ),
    "t_notes": ("Worth a look", "值得注意"),
    "t_no_notes": ("No tensor stands out.", "没有突出的张量。"),
    "t_channel_ranges": ("Ranges of channels", "各通道范围"),
    "t_sensitivity": ("Sensitivity of ops", "算子敏感度"),
    "t_alone": ("Cost of quantizing it alone", "单独量化的代价"),
    "t_leave": ("Gain of leaving it in float", "保留浮点的收益"),
    "t_sensitivity_why": (
        "Each row: one kind of value of one op rounded to its scale alone, all else in float, and what that does to "
        "the outputs. With --leave-float the reverse: all rounded but this one. Larger is worse. The JSON is read by "
        "--template sensitive=FILE,topk=N.",
        "每行：仅将某算子的一类数值按 scale 舍入，其余保持浮点，看输出变化。"
        "使用 --leave-float 时相反：除它以外全部舍入。"
        "数值越大越敏感。JSON 可由 --template sensitive=FILE,topk=N 读取。",
    ),
    "t_kind": ("Kind", "种类"),
    "role_activation": ("activation", "激活"),
    "role_weight": ("weight", "权重"),
    "role_bias": ("bias", "偏置"),
    "role_constant": ("constant", "常量"),
    "role_input": ("input", "输入"),
    "role_result": ("result", "结果"),
    "role_output": ("output", "输出"),
    "t_sense": ("Sensitivity", "敏感度"),
    "t_badcase": ("Worst samples", "最差样本"),
    "t_badcase_curve": (
        "Every sample by its number: the chosen metric over all outputs; the worst are marked.",
        "按编号列出每个样本在所有输出上的指标，最差者已标出。",
    ),
    "t_rank": ("Rank", "名次"),
    "t_file": ("File", "文件"),
    "t_output": ("Output", "输出"),
    "t_all_samples": ("All samples", "全部样本"),
    "t_more": ("more in the JSON and CSV", "其余见 JSON 与 CSV"),
}
