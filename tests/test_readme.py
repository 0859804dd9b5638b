"""What README and docs promise: files of one's own train, targets and links exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
TEXTS = {str(path): path.read_text() for path in PAGES}
EXTEND = TEXTS["docs/extend.md"]


def test_files_of_ones_own_train_as_they_stand(tmp_path):
    """The module and the config of docs/extend.md, in a folder with nothing else."""
    for language, name in (("python", "mine.py"), ("toml", "waves.toml")):
        (text,) = re.findall(rf"^```{language}\n(.*?)^```", EXTEND, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(text)

    def expograph(*words):
        done = subprocess.run(
            [sys.executable, "-m", "expograph", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path("src").resolve())},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "chords over 8 ranks" in expograph("topology", "show", "mine:chords", "--nodes", "8")
    said = expograph("sweep", "waves.toml", "seed=[0,1]", "steps=50", "--tables", "tables")
    config = tmp_path / "waves.toml"
    images = '{ kind = "classification", dataset = "mine:squares", model = "linear" }'
    text = config.read_text().replace('"mine:waves"', images)
    config.write_text(text.replace('"loss_averaged"', '"accuracy_averaged"'))
    expograph("train", "waves.toml", "steps=5", "algorithm=dsgd_atc", "beta=0", "seed=0")
    assert "chordal ring (hops=3)" in said and "Nesterov DmSGD" in said


@pytest.mark.parametrize("name", TEXTS)
def test_every_target_named_is_in_the_makefile(name):
    makefile = Path("Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", TEXTS[name], re.MULTILINE))
    assert named <= targets, named - targets


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_somewhere(name):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", TEXTS[name])
    for link in links:
        if not link.startswith("http"):
            assert (Path(name).parent / link).exists(), link


def test_the_map_has_every_module():
    tree = TEXTS["docs/map.md"]
    for path in Path("src/expograph").iterdir():
        if path.name.startswith("__") or path.suffix not in ("", ".py"):
            continue
        assert path.name in tree, path.name
    for folder in ("scripts", "configs", "notebooks"):
        assert f"{folder}/" in tree
    for path in Path("scripts").glob("*.*"):
        assert path.name in tree, path


@pytest.mark.parametrize("page", TEXTS)
def test_configs_named_exist(page):
    for name in re.findall(r"configs/([a-z0-9_]+)\.toml", TEXTS[page]):
        assert name in ("nesterov", "<experiment>") or Path(f"configs/{name}.toml").exists(), name
