"""FORMAT.md is what the declarations say today."""

from bpuc.isa import Instruction
from bpuc.program import format_doc


def test_format_md_is_fresh() -> None:
    text = format_doc.PATH.read_text(encoding="utf-8")
    assert text == format_doc.render(), "run python -m bpuc.program.format_doc"


def test_every_instruction_has_its_section() -> None:
    text = format_doc.render()
    for cls in Instruction.__subclasses__():
        assert f"### {cls.opcode}: {cls.__name__}, on the {cls.device.value}\n" in text


def test_enumerations_and_results_are_spelled_out() -> None:
    text = format_doc.render()
    assert "| `kind` | int64 | 0 ADD, 1 MUL, 2 MAX, 3 MIN |" in text
    assert "| `y` | int64 1, and one operand word | result |" in text
    assert "| `res` | int64 0 where absent, else 1 and one operand word | |" in text
