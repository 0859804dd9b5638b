"""What the README promises: its diffs apply and train, its targets and links exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEXTS = {name: Path(name).read_text() for name in ("README.md", "CONTRIBUTING.md")}
README = TEXTS["README.md"]
DIFFS = re.findall(r"^```diff\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_three_diffs_are_short_and_apply_and_train(tmp_path):
    assert len(DIFFS) == 3
    for name in ("src", "configs"):
        shutil.copytree(name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for diff in DIFFS:
        assert sum(line[0] in "+-" for line in diff.splitlines()) < 30
        done = subprocess.run(
            ["git", "apply", "-"], input=diff, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    words = ["sweep", "configs/mine.toml", "seed=0", "steps=20"]
    done = subprocess.run(
        [sys.executable, "-m", "expograph", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "chordal_ring" in done.stdout and "nesterov_dmsgd" in done.stdout


@pytest.mark.parametrize("name", TEXTS)
def test_every_target_named_is_in_the_makefile(name):
    makefile = Path("Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", TEXTS[name], re.MULTILINE))
    assert named and named <= targets, named - targets


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXTS[name])
    for link in links:
        if not link.startswith("http"):
            assert Path(link).exists(), link


def test_the_map_has_every_module():
    tree = README[README.index("## Map") : README.index("## Add your own")]
    for path in Path("src/expograph").iterdir():
        if path.name.startswith("__") or path.suffix not in ("", ".py"):
            continue
        assert path.name in tree, path.name
    for folder in ("scripts", "configs", "notebooks"):
        assert f"{folder}/" in tree
    for path in Path("scripts").glob("*.*"):
        assert path.name in tree, path


def test_configs_named_exist():
    for name in re.findall(r"configs/([a-z0-9_]+)\.toml", README):
        assert name in ("mine", "<experiment>") or Path(f"configs/{name}.toml").exists(), name
