"""Writes `ebbtide/_config.py`: a class for every section and a name for every choice.

Names, units, types and descriptions come from the structs of `crates/sim/src/config`, so that
completion shows what the model has. `--check` fails when the file differs from what would be
written.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "python/ebbtide/_config.py"

STRUCT = re.compile(
    r"((?:^///[^\n]*\n)+)((?:#\[[^\n]*\]\n)*)pub struct (\w+) \{\n(.*?)^\}", re.M | re.S
)
FIELD = re.compile(r"((?: {4}///[^\n]*\n)+)((?: {4}#\[[^\n]*\]\n)*) {4}pub (\w+): ([^\n]*),\n")
CHOICE = re.compile(r"pub enum (\w+) as \"[^\"]*\" \{(.*?)\n {4}\}", re.S)
PLAIN = {
    "usize": "int",
    "u64": "int",
    "u16": "int",
    "u32": "int",
    "f64": "float",
    "bool": "bool",
    "String": "str",
    "Bytes": "Size",
    "toml::Table": "Table",
}


def described(doc: str) -> str:
    """A doc comment as plain text."""
    lines = [line.strip().removeprefix("///").strip() for line in doc.splitlines()]
    text = re.sub(r"\[`?([^\]`]*)`?\]\([^)]*\)", r"\1", " ".join(lines))
    return re.sub(r"\[`([^\]`]*)`\]", r"\1", text).replace("`", "")


def wrapped(text: str, indent: str) -> str:
    """A docstring whose lines have at most 100 columns."""
    words, lines = f'"""{text}"""'.split(" "), [indent]
    for word in words:
        gap = "" if lines[-1] == indent else " "
        if len(lines[-1]) + len(gap) + len(word) > 100:
            lines.append(indent + word)
        else:
            lines[-1] += gap + word
    return "\n".join(lines)


def main() -> int:
    sources = sorted((ROOT / "crates/sim/src/config").glob("*.rs"))
    texts = [path.read_text() for path in sources]
    choices = {}
    for path in [*sources, *sorted((ROOT / "crates/core/src").rglob("*.rs"))]:
        for name, body in CHOICE.findall(path.read_text()):
            choices.setdefault(name, re.findall(r"= \"([^\"]+)\"", body))
    structs = {}
    for text in texts:
        for doc, attributes, name, body in STRUCT.findall(text):
            if "Deserialize" in attributes:
                structs[name] = (described(doc), FIELD.findall(body))
    used = set()

    def python_type(rust: str) -> str:
        optional = re.fullmatch(r"Option<(.*)>", rust)
        if optional:
            return python_type(optional[1]) + " | None"
        if rust in PLAIN:
            return PLAIN[rust]
        if rust in structs:
            return rust
        used.add(rust)
        return rust

    out = [
        '"""The parameters of a design, as typed objects. Made by `tools/make_config.py`."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Literal",
        "",
        "from ._section import Root, Section, Size, Table",
        "",
    ]
    for _, fields in structs.values():
        for *_, rust in fields:
            python_type(rust)
    for name in sorted(used):
        line = ", ".join(f'"{value}"' for value in choices[name])
        if len(f"{name} = Literal[{line}]") > 100:
            line = "\n" + "".join(f'    "{value}",\n' for value in choices[name])
        out.append(f"{name} = Literal[{line}]")
    out.append("")
    ordered = [name for name in structs if name != "Config"] + ["Config"]
    for name in ordered:
        doc, fields = structs[name]
        out += ["", f"class {name}({'Root' if name == 'Config' else 'Section'}):"]
        if name == "Config":
            doc += " Assigning to a parameter checks the whole; the error names the key."
        out += [wrapped(doc, "    "), ""]
        for field_doc, _, field, rust in fields:
            line = f"    {field}: {python_type(rust)}"
            out += [line, wrapped(described(field_doc), "    ")]
        out.append("")
    text = "\n".join(out).rstrip() + "\n"
    if "--check" in sys.argv:
        if TARGET.read_text() != text:
            print(f"{TARGET}: run python/tools/make_config.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


sys.exit(main())
