"""How easy is it to find one's way in the code? Counts over the source tree, with the goal beside each.

Run ``python benchmarks/bench_house.py``; ``--list NAME`` prints the places behind one count
(``parameters``, ``any``, ``constants``, ``names``, ``folders``, ``lengths``).
"""

from __future__ import annotations

import argparse
import ast
import statistics
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "phasecast"
MOST_PARAMETERS = 8
REASON = "wide signature:"  # the comment that explains a longer list of parameters, in the lines of the signature
PROTOCOL_NAMES = ("cli", "studies", "views")
"""Every command module has its command, every recipe its work, layout, conclude, every view of the studio its page."""


def modules() -> dict[Path, ast.Module]:
    """Every module; the counterexamples of claims are programs of ten lines and not counted."""
    paths = [path for path in sorted(SOURCE.rglob("*.py")) if "counterexamples" not in path.parts]
    return {path: ast.parse(path.read_text()) for path in paths}


def comments(path: Path) -> dict[int, str]:
    """Comments by line."""
    with open(path, "rb") as file:
        return {t.start[0]: t.string for t in tokenize.tokenize(file.readline) if t.type == tokenize.COMMENT}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [one for one in every if one.arg not in ("self", "cls")]


def long_signatures(trees: dict[Path, ast.Module]) -> list[str]:
    """Functions with more than eight parameters, with their reason if the signature states one."""
    rows = []
    for path, tree in trees.items():
        words = comments(path)
        for function in functions(tree):
            if (count := len(parameters(function))) > MOST_PARAMETERS:
                lines = range(function.lineno - 1, function.body[0].lineno)
                reasons = [words[line].split(REASON)[1].strip() for line in lines if REASON in words.get(line, "")]
                rows.append(
                    f"{place(path, function)} {function.name}: {count}; {reasons[0] if reasons else 'NO REASON'}"
                )
    return rows


def bare_any(trees: dict[Path, ast.Module]) -> list[str]:
    """Parameters annotated with nothing more than ``Any``."""
    return [
        f"{place(path, function)} {function.name}({one.arg})"
        for path, tree in trees.items()
        for function in functions(tree)
        for one in parameters(function)
        if isinstance(one.annotation, ast.Name) and one.annotation.id == "Any"
    ]


def unsourced_constants(trees: dict[Path, ast.Module]) -> list[str]:
    """Numbers that decide something and do not say why.

    A module-level number needs a comment on its line, on the line above, or a string below it; a field of a ``Policy``
    needs ``rule(value, why)``; a literal inside ``systematic=`` belongs in a policy.
    """
    rows = []
    for path, tree in trees.items():
        words = comments(path)
        for number, node in enumerate(tree.body):
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value and is_number(node.value):
                after = tree.body[number + 1] if number + 1 < len(tree.body) else None
                told = any(line in words for line in (*range(node.lineno, (node.end_lineno or 0) + 1), node.lineno - 1))
                if not told and not is_text(after):
                    rows.append(f"{place(path, node)} {ast.unparse(target) if target else ''}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Policy" for base in node.bases):
                for entry in node.body:
                    if isinstance(entry, ast.AnnAssign) and not is_rule(entry.value):
                        rows.append(f"{place(path, entry)} {node.name}.{ast.unparse(entry.target)} has no reason")
            if isinstance(node, ast.keyword) and node.arg == "systematic" and has_literal(node.value):
                rows.append(f"{place(path, node.value)} systematic={ast.unparse(node.value)}")
    return rows


def is_number(node: ast.AST) -> bool:
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(is_number(one) for one in node.elts)
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return all(is_number(one) for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr))
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_rule(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "rule" and len(node.args) == 2


def has_literal(node: ast.AST) -> bool:
    """A literal other than 0, 1 and 2, which are structure."""
    numbers = [
        one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, int | float)
    ]
    return any(value not in (0, 1, 2) for value in numbers)


def repeated_names(trees: dict[Path, ast.Module]) -> list[str]:
    """Public functions and classes that several modules define under one name."""
    homes: dict[str, dict[str, None]] = defaultdict(dict)  # overloads of one function are one
    for path, tree in trees.items():
        inside = path.relative_to(SOURCE)
        if set(PROTOCOL_NAMES) & set(inside.parts[:2]):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name][str(inside)] = None
    return [f"{name}: {', '.join(where)}" for name, where in sorted(homes.items()) if len(where) > 1]


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"


class Count(NamedTuple):
    """One line of the table."""

    label: str
    count: int
    goal: str
    met: bool


def places_of(trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """What is counted, by the names that ``--list`` takes."""
    own = [path for path in trees if path.name != "__init__.py"]
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in own)
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in own}
    return {
        "parameters": long_signatures(trees),
        "any": bare_any(trees),
        "constants": unsourced_constants(trees),
        "names": repeated_names(trees),
        "folders": [f"{folder}: {count}" for folder, count in folders.most_common()],
        "lengths": [f"{name}: {lines}" for name, lines in sorted(lengths.items(), key=lambda row: -row[1])],
    }


def counts(places: dict[str, list[str]]) -> list[Count]:
    """The table, with whether each goal is met."""
    (folder, fullest), (module, longest) = (places[name][0].split(": ") for name in ("folders", "lengths"))
    median = round(statistics.median(int(row.split(": ")[1]) for row in places["lengths"]))
    wide, unexplained = len(places["parameters"]), sum("NO REASON" in row for row in places["parameters"])
    loose, bare, repeated = len(places["any"]), len(places["constants"]), len(places["names"])
    return [
        Count("modules in the fullest folder", int(fullest), f"≤ 14 ({folder}/)", int(fullest) <= 14),
        Count("median length of a module", median, "150-200 lines", 150 <= median <= 200),
        Count("longest module", int(longest), f"≤ 500 ({module})", int(longest) <= 500),
        Count(
            "functions with more than 8 parameters", wide, f"< 10; {unexplained} without a reason",
            wide < 10 and not unexplained,
        ),
        Count("parameters annotated with a bare Any", loose, "< 250", loose < 250),
        Count("decision constants without a reason", bare, "0", bare == 0),
        Count("public names defined in several modules", repeated, "< 8", repeated < 8),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", choices=("parameters", "any", "constants", "names", "folders", "lengths"))
    choice = parser.parse_args().list
    places = places_of(modules())
    if choice:
        print("\n".join(places[choice]))
        return
    for row in counts(places):
        print(f"{row.label:<42}{row.count:>5}   goal {row.goal}")


if __name__ == "__main__":
    main()
