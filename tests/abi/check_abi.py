#!/usr/bin/env python3
"""The binary interface of libqrt, as the header and the library have it, against the list that is checked in.

    check_abi.py --header qrt.h --library libqrt.so --list qrt.abi [--cc cc] [--update]

The list has every exported function with its types, every constant, and every public struct with its size and its
fields' places. Exit code 1 and one line for each difference: what older programs would notice (the header's contract says
what may change), what is only new, and what to do. --update writes the list anew where nothing breaks.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

HEAD = """# The binary interface of libqrt: what programs that are already built rely on. Compared by tests/abi/check_abi.py, which
# also writes it (--update). Sizes and offsets are bytes on x86-64.
"""


def words(text):
    return " ".join(text.split())


def without_name(argument):
    """`const qrt_artifact* artifact` -> `const qrt_artifact*`."""
    argument = words(argument)
    return argument if argument == "void" else re.sub(r"\s*\b\w+$", "", argument)


def parse_field(text):
    """(name, type) of one declaration in a struct."""
    text = words(text)
    pointer = re.search(r"\(\*(\w+)\)", text)
    if pointer:
        return pointer[1], text.replace(pointer[1], "", 1)
    name = re.search(r"(\w+)((\[\w+\])*)$", text)
    return name[1], words(text[:name.start()]) + name[2]


def read_header(path):
    """The header's text, with that of its parts where it includes them."""
    def part(included):
        return read_header(os.path.join(os.path.dirname(path), included[1]))
    with open(path, encoding="utf-8") as f:
        return re.sub(r"^#include \"(\w+\.h)\"\n", part, f.read(), flags=re.MULTILINE)


def parse_header(path):
    """What can be read from the header's text: functions, callbacks, names of constants, fields of structs."""
    text = re.sub(r"/\*.*?\*/", " ", read_header(path), flags=re.DOTALL)
    functions = {}
    for returned, name, arguments in re.findall(r"\bQRT_API\s+([^;(]*?)\b(qrt_\w+)\s*\(([^)]*)\)\s*;", text):
        functions[name] = f"{words(returned)}({', '.join(without_name(a) for a in arguments.split(','))})"
    for returned, name, arguments in re.findall(r"\btypedef\s+([^;(]*?)\(\*(qrt_\w+)\)\s*\(([^)]*)\)\s*;", text):
        functions["callback " + name] = f"{words(returned)}({', '.join(without_name(a) for a in arguments.split(','))})"
    constants = []
    for body in re.findall(r"\benum\s*\{(.*?)\}", text, flags=re.DOTALL):
        constants += re.findall(r"\b(QRT_\w+)\s*=", body)
    constants += [m for m in re.findall(r"^#define\s+(QRT_\w+)[ \t]+\S", text, flags=re.MULTILINE)
                  if m not in ("QRT_API", "QRT_API_MINOR")]
    structs = {}
    for name, body in re.findall(r"\btypedef\s+struct\s+(qrt_\w+)\s*\{(.*?)\}\s*qrt_\w+\s*;", text, flags=re.DOTALL):
        structs[name] = [parse_field(field) for field in body.split(";") if field.strip()]
    types = re.findall(r"\btypedef\s+(\w+)\s+(qrt_\w+)\s*;", text)
    return functions, constants, structs, {f"type {name}": base for base, name in types}


def measure(header, constants, structs, cc):
    """Values of constants; sizes of structs; offset and size of every field."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{os.path.abspath(header)}"', "int main(void) {"]
    for name in constants:
        lines.append(f'  printf("constant {name} %lld\\n", (long long)({name}));')
    for name, fields in structs.items():
        lines.append(f'  printf("struct {name} %zu\\n", sizeof({name}));')
        for field, _ in fields:
            lines.append(f'  printf("field {name} {field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));')
    lines += ["  return 0;", "}"]
    with tempfile.TemporaryDirectory(prefix="qrt-abi-") as folder:
        source, program = os.path.join(folder, "measure.c"), os.path.join(folder, "measure")
        with open(source, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
        built = subprocess.run([cc, "-std=c11", source, "-o", program], capture_output=True, text=True)
        if built.returncode != 0:
            sys.exit(f"check_abi: {header} was not understood:\n{built.stderr}")
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def interface_of(header, cc):
    """{line's key: (text)} in the list's own form, in order."""
    functions, constants, structs, types = parse_header(header)
    lines = [f"{name if ' ' in name else 'function ' + name}: {kind}" for name, kind in functions.items()]
    lines += [f"{name}: {base}" for name, base in types.items()]
    kinds = {(struct, field): kind for struct, fields in structs.items() for field, kind in fields}
    for line in measure(header, constants, structs, cc):
        what, name, *rest = line.split()
        if what == "field":
            field, offset, size = rest
            lines.append(f"  {field} {offset} {size} {kinds[name, field]}")
        else:
            lines.append(line)
    return lines


def read_structure(lines):
    """(single lines by name, structs by name) of the list's form."""
    single, structs, last = {}, {}, None
    for line in lines:
        if line.startswith("  "):
            field, offset, size, kind = line.split(maxsplit=3)
            structs[last][1][field] = (int(offset), int(size), kind)
        elif line.startswith("struct "):
            _, last, size = line.split()
            structs[last] = (int(size), {})
        elif line.strip() and not line.startswith("#"):
            separator = ": " if ": " in line else " "
            name, value = line.rsplit(separator, 1) if separator == " " else line.split(separator, 1)
            single[name] = value
    return single, structs


def compare_struct(name, old, new, sized):
    """(what breaks, what is new). `sized`: the structs whose first field is struct_size."""
    (old_size, old_fields), (new_size, new_fields) = old, new
    breaks, added = [], []
    last = list(old_fields)[-1]
    # A struct that ends with a sized one grows with it: its reader goes by that one's struct_size.
    grows = name in sized or old_fields[last][2] in sized
    for field, (offset, size, kind) in old_fields.items():
        if field not in new_fields:
            breaks.append(f"{name}.{field} is gone (was at {offset})")
            continue
        now = new_fields[field]
        if now[0] != offset:
            breaks.append(f"{name}.{field} moved from offset {offset} to {now[0]}")
        if now[2] != kind or (now[1] != size and not (field == last and kind in sized and now[1] > size)):
            breaks.append(f"{name}.{field} was {kind} of {size} bytes, is {now[2]} of {now[1]}")
    for field, (offset, size, kind) in new_fields.items():
        if field in old_fields:
            continue
        if name not in sized:
            breaks.append(f"{name}.{field} is new, in a struct without struct_size, which cannot grow")
        elif offset < old_size:
            breaks.append(f"{name}.{field} is new at offset {offset}, inside the {old_size} bytes that older programs call theirs")
        else:
            added.append(f"{name}.{field} at {offset}, {kind}")
    if new_size < old_size or (new_size > old_size and not grows):
        breaks.append(f"{name} had {old_size} bytes, has {new_size}")
    return breaks, added


def compare(old_lines, new_lines):
    old, old_structs = read_structure(old_lines)
    new, new_structs = read_structure(new_lines)
    sized = {name for name, (_, fields) in old_structs.items() if next(iter(fields), "") == "struct_size"}
    breaks, added = [], []
    for name, value in old.items():
        if name not in new:
            breaks.append(f"{name} is gone")
        elif new[name] != value:
            breaks.append(f"{name} was {value}, is {new[name]}")
    added += [f"{name}: {value}" for name, value in new.items() if name not in old]
    for name, struct in old_structs.items():
        if name not in new_structs:
            breaks.append(f"struct {name} is gone")
            continue
        more_breaks, more_added = compare_struct(name, struct, new_structs[name], sized)
        breaks += more_breaks
        added += more_added
    added += [f"struct {name}" for name in new_structs if name not in old_structs]
    return breaks, added


def check_exports(library, lines):
    """One finding for each symbol that only one of library and header has, and for a wrong SONAME."""
    shown = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library], capture_output=True, text=True, check=True).stdout
    exported = {line.split()[0].split("@")[0] for line in shown.splitlines() if line.split()[1] != "A"}
    declared = {line.split()[1].rstrip(":") for line in lines if line.startswith("function ")}
    findings = [f"{library} exports {name}, which qrt.h does not declare" for name in sorted(exported - declared)]
    findings += [f"{library} lacks {name}, which qrt.h declares" for name in sorted(declared - exported)]
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    major = next(line.split()[-1] for line in lines if line.startswith("constant QRT_API_MAJOR "))
    if f"Library soname: [libqrt.so.{major}]" not in dynamic:
        findings.append(f"{library}: its SONAME is not libqrt.so.{major}")
    return findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", required=True)
    parser.add_argument("--library")
    parser.add_argument("--list", required=True)
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--update", action="store_true")
    args = parser.parse_args()
    lines = interface_of(args.header, args.cc)
    old_lines = []
    if os.path.exists(args.list):
        with open(args.list, encoding="utf-8") as f:
            old_lines = f.read().splitlines()
    breaks, added = compare(old_lines, lines)
    wrong = check_exports(args.library, lines) if args.library else []
    for finding in wrong:
        print("wrong:  " + finding)
    for finding in breaks:
        print("BREAKS: " + finding)
    for finding in added:
        print("new:    " + finding)
    if breaks:
        print("Programs built against an older qrt.h would no longer run. Take it back: functions and constants keep what they are,\n"
              "structs grow only at the end, beyond the size they had, and only those with struct_size. (If this is to be another\n"
              f"major version: raise QRT_API_MAJOR and the SONAME, delete {args.list} and write it with --update.)")
    elif added and not args.update:
        print("Older programs go on running. If this is meant: raise QRT_API_MINOR (once for each release) and write the list anew:\n"
              f"  {sys.argv[0]} --header {args.header} --list {args.list} --update")
    if args.update and not breaks:
        with open(args.list, "w", encoding="utf-8") as f:
            f.write(HEAD + "\n".join(lines) + "\n")
        added = []
    print(f"check_abi: {len(breaks)} breaks, {len(added)} new, {len(wrong)} wrong")
    return 1 if breaks or added or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
