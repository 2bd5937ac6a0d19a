#!/usr/bin/env python3
"""No function over 100 lines, no lambda over 30, in any C and C++ file of the tree, from the line of its opening brace to that
of its closing one. Initialisers and data tables are not functions. Reads the text as clang-format leaves it, without
expanding macros; of `#if ... #else ... #endif` the first branch. Exit code 1 and one line per finding otherwise.

    tools/check_functions.py [FILE ...]     default: every file that git knows
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FUNCTION, LAMBDA = 100, 30

# Longest first: a raw string may hold quotes, a comment an apostrophe, a number apostrophes between its digits.
NOT_CODE = re.compile(r'R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(?:\\\n|[^\n])*", re.M)
LAMBDA_HEAD = re.compile(r"(?<![\w\])])\[[^\[\]]*\]\s*(?:\((?P<of>.*)\))?\s*(?:mutable|constexpr|noexcept|\s)*(?:->\s*[\w:<>,*&\s]+)?$", re.S)
SCOPE_HEAD = re.compile(r"^(?:typedef\s+|static\s+|inline\s+|const\s+)*(?:namespace|class|struct|union|enum|extern\s*$)\b")
NAME = re.compile(r"(operator\s*[^\s\w(]+|operator\s*\(\)|[~\w:]+)\s*\(([^()]*)")


def blank(match):
    """The same lines without what is in them."""
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    """The text without comments, literals, preprocessor lines and the branches after the first, line for line."""
    text = NOT_CODE.sub(blank, text)
    out, at, skipping = [], 0, [False]
    for m in DIRECTIVE.finditer(text):
        piece = text[at:m.start()]
        out.append(re.sub(r"[^\n]", " ", piece) if skipping[-1] else piece)
        out.append(blank(m))
        at = m.end()
        if m.group(1).startswith("if"):
            skipping.append(skipping[-1])
        elif m.group(1) in ("else", "elif"):
            skipping[-1] = True
        elif m.group(1) == "endif" and len(skipping) > 1:
            skipping.pop()
    out.append(text[at:])
    return "".join(out)


def without_template(head):
    """The head of a declaration without `template <...>`, which may name classes, and without attributes."""
    head = re.sub(r"\[\[.*?\]\]|\balignas\([^()]*\)", " ", head).strip()
    while m := re.match(r"template\s*<", head):
        depth, i = 1, m.end()
        while depth and i < len(head):
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            i += 1
        head = head[i:].strip()
    return head


def balanced(text):
    return text.count("(") == text.count(")")


def kind_of(head, enclosing):
    m = LAMBDA_HEAD.search(head)
    if m and balanced(m.group("of") or ""):
        return "lambda"
    if enclosing in ("function", "lambda", "block"):
        return "block"
    head = without_template(head)
    if SCOPE_HEAD.match(head) and not head.endswith(")"):
        return "scope"
    # At the top or in a class: a body follows parameters, or a member initialiser with braces of its own.
    if enclosing == "scope" and (not head or (")" in head and not head.endswith(("=", "(", ",", "return")))):
        return "function"
    return "initialiser"


def measure(text):
    """[(kind, name, line, lines)] of every function and lambda."""
    found, stack, head, line, name = [], [], "", 1, ""
    for c in code_of(text):
        line += c == "\n"
        if c == "{":
            enclosing = stack[-1][0] if stack else "scope"
            kind = kind_of(head.strip(), enclosing)
            if kind == "function":
                called = NAME.search(without_template(head))
                name = called.group(1) + (f"({called.group(2).strip()})" if called and called.group(1).isupper() else "") if called else name
            stack.append((kind, line, head if kind in ("lambda", "initialiser", "block") else "", name))
            head = ""
        elif c == "}":
            if not stack:
                raise ValueError(f"line {line}: a closing brace without an opening one")
            kind, begin, before, of = stack.pop()
            if kind in ("function", "lambda"):
                found.append((kind, of, begin, line - begin + 1))
            # Behind a lambda or an initialiser the statement goes on.
            head = before + " " if kind in ("lambda", "initialiser") else ""
        elif c == ";":
            head = ""
        else:
            head += c
    if stack:
        raise ValueError(f"line {stack[-1][1]}: an opening brace without a closing one")
    return found


def main():
    files = sys.argv[1:]
    if not files:
        out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        files = [f for f in out.splitlines() if re.search(r"\.(c|cc|cpp|h|hpp)$", f) and os.path.isfile(os.path.join(ROOT, f))]
    findings, counted = [], 0
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        try:
            measured = measure(text)
        except ValueError as problem:
            findings.append(f"{path}: {problem}")
            continue
        counted += len(measured)
        for kind, name, line, lines in measured:
            cap = FUNCTION if kind == "function" else LAMBDA
            if lines > cap:
                what = name if kind == "function" else f"lambda in {name or 'a declaration'}"
                findings.append(f"{path}:{line}: {what}: {lines} lines, the cap is {cap}")
    for finding in findings:
        print(finding)
    print(f"check_functions: {len(findings)} findings in {counted} functions of {len(files)} files")
    return 1 if findings or not counted else 0


if __name__ == "__main__":
    sys.exit(main())
