"""House rules that stay true because they are tested."""

import ast
from pathlib import Path

import expograph

ROOT = Path(expograph.__file__).parent
LAYERS = [  # a package may import from the floors above its own line in this list, never below
    {"names", "files", "randomness", "memory", "step_size", "lazy", "looks", "rule_parameters"},
    {"validation", "own"},
    {"graphs", "data", "networks", "algorithms"},
    {"cluster"},
    {"engines"},
    {"config", "averager"},
    {"problems"},
    {"runs"},
    {"analysis"},
    {"api"},
    {"measure"},
    {"claims"},
    {"report"},
    {"commands"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def imports(path: Path) -> set[str]:
    """Names of our own modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("expograph"):
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {n[1] for n in names if n[0] == "expograph" and len(n) > 1}
    return found


def test_imports_point_one_way():
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if module == "__init__":
            continue
        for target in imports(path) - {module}:
            assert LEVEL[target] < LEVEL[module], f"{path} imports {target}"


def test_only_the_shell_prints_or_reads_the_command_line():
    shell = {ROOT / "cli.py", *(ROOT / "commands").glob("*.py")}
    for path in set(ROOT.rglob("*.py")) - shell:
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        names = {c.func.id for c in calls if isinstance(c.func, ast.Name)}
        assert "print" not in names, path
        assert "argparse" not in path.read_text(), path
