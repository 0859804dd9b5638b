"""The report: built from real runs, whole without a network, usable in a real browser.

The tests in a browser need Chromium, `apt-get install chromium`, or another one whose path is in
CHROMIUM. Where there is none they are skipped; with EXPOGRAPH_BROWSER=1 they fail instead.
"""

import json
import os
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from expograph import cli
from expograph.config import load
from expograph.graphs.topology import names
from expograph.report import page
from expograph.report.experiment import write_report
from expograph.report.reading import ReportError
from expograph.report.style import COLOURS
from expograph.runs.runner import execute

TINY = """
name = "tiny"
command = "make reproduce-table TABLE=tiny"
[run]
algorithm = "dsgd_atc"
nodes = 4
steps = 60
lr = 0.1
evaluate_every = 10
[run.problem]
kind = "logistic"
samples = 5
[[sweep]]
topology = ["ring", "one_peer_exponential"]
seed = [0, 1]
[[sweep]]
algorithm = ["psgd"]
topology = ["fully_connected"]
seed = [0, 1]
[table]
title = "A tiny table"
metrics = ["error_workers"]
published = "elsewhere"
"""
PAPER = TINY.replace('"tiny"', '"tiny_paper"\nscale = "paper"\nscale_of = "tiny"').replace(
    "steps = 60", 'steps = 60\ndevice = "cuda"\nengine = "bluefog"'
)
PUBLISHED = """
kind = "published"
[elsewhere]
caption = "what it is"
source = "where it was read"
[elsewhere.cells.ring]
4 = "12.34"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with configs/, results/ of six real runs, and report/ built from them."""
    folder = tmp_path_factory.mktemp("site")
    configs, root = folder / "configs", folder / "results"
    configs.mkdir()
    for name, content in {
        "tiny": TINY,
        "tiny_paper": PAPER,
        "published": PUBLISHED,
    }.items():
        (configs / f"{name}.toml").write_text(content)
    experiment = load(configs / "tiny.toml")
    for run in experiment.runs:
        execute(run, root)
    write_report(experiment, root, "tiny")
    keys = [run.key for run in experiment.runs]
    evidence = {"evidence": "1 < 2 & `make claims`"}
    claim = {
        "id": "a-claim",
        "ledger": "ours",
        "statement": "A ring & a <one-peer> graph end alike.",
        "source": "here",
        "check": "none",
        "with": {},
        "verdict": "supported",
        "config": "configs/tiny.toml",
        "parts": [
            {
                **evidence,
                "id": "all",
                "text": "all",
                "holds": "yes",
                "runs": keys[:3],
                "primary": True,
            },
            {**evidence, "id": "none", "text": "none", "holds": "no", "runs": []},
        ],
    }
    (root / "claims.json").write_text(json.dumps({"claims": [claim], "made": {}}, indent=1))
    page.build(root, folder / "report", configs)
    return folder


@pytest.fixture
def copy(made, tmp_path) -> Path:
    """The same to damage."""
    for name in ("configs", "results"):
        shutil.copytree(made / name, tmp_path / name)
    return tmp_path


class Page(HTMLParser):
    """What a page links to, loads and names, and whether its tags are balanced."""

    VOID = frozenset({"meta", "link", "img", "input", "br", "line"})

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.ids, self.open = [], [], [], []
        self.headings: list[str] = []
        self.feed(path.read_text())
        assert not self.open, f"{path}: {self.open} not closed"

    def handle_starttag(self, tag, attributes):
        known = dict(attributes)
        assert len(known) == len(attributes), f"an attribute twice: {attributes}"
        if tag not in self.VOID:
            self.open.append(tag)
        self.links += [known["href"]] if tag == "a" else []
        self.loads += [known[k] for k in ("src", "href") if tag != "a" and k in known]
        self.ids += [known["id"]] if "id" in known else []
        self.headings += [tag] if tag in ("h1", "h2", "h3") else []
        assert tag != "img" or "alt" in known

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


def pages(report: Path) -> dict[str, Page]:
    return {path.name: Page(path) for path in sorted(report.glob("*.html"))}


# ---- without a browser -----------------------------------------------------------------------


def test_every_link_and_asset_of_every_page_is_there(made):
    report = made / "report"
    found = pages(report)
    assert {"index.html", "claims.html", "tiny.html", "tiny-runs.html"} <= set(found)
    assert {f"topology-{name}.html" for name in names()} <= set(found)
    for name, content in found.items():
        assert len(set(content.ids)) == len(content.ids), f"{name}: an id twice"
        assert content.headings.count("h1") == 1
        for link in content.links:
            target, _, anchor = link.partition("#")
            assert (report / (target or name)).is_file(), f"{name} links to {link}"
            if anchor:
                assert anchor in found[target or name].ids, f"{name} links to {link}"
        for asset in content.loads:
            assert asset == "data:," or (report / asset).is_file(), f"{name} loads {asset}"


def test_nothing_is_loaded_from_elsewhere_and_it_is_small(made):
    report = made / "report"
    for path in report.glob("*.html"):
        text = re.sub(r'"\$schema":"[^"]*"', "", path.read_text())
        assert not re.search(r"""(?:src|href|url)\s*[=(:]\s*["']?(?:https?:)?//""", text), path
        assert path.stat().st_size < 1.5e6
    assert "http" not in (report / "style.css").read_text()
    assert sum(path.stat().st_size for path in report.rglob("*")) < 6e6


def test_the_palette_is_that_of_the_figures(made):
    report = made / "report"
    style = dict(re.findall(r"--(\w+): (#\w{6});", (report / "style.css").read_text()))
    expected = {re.sub(r"\W+", "_", name).strip("_"): look for name, look in COLOURS.items()}
    assert expected.items() <= style.items()
    for name in names():
        assert COLOURS[name] in (report / f"topology-{name}.html").read_text()
    others = set(re.findall(r'stroke="(#\w+)"', (report / "tiny.html").read_text()))
    assert others and others <= set(COLOURS.values())


def test_numbers_published_and_measured_stand_side_by_side_with_their_runs(made):
    text = (made / "report" / "tiny.html").read_text()
    assert "12.34" in text and "not available to us" in text and "where it was read" in text
    assert "tiny-runs.html#g0" in text
    assert "needs logistic" not in text and "GPUs" in text  # the paper's scale is not run
    runs = (made / "report" / "tiny-runs.html").read_text()
    for run in load(made / "configs" / "tiny.toml").runs:
        assert f'id="{run.key}"' in runs
    assert "commit" in runs and "cores" in runs and "problem.samples" in runs
    claims = (made / "report" / "claims.html").read_text()
    assert (
        "A ring &amp; a &lt;one-peer&gt; graph" in claims and "<code>make claims</code>" in claims
    )


def test_curves_of_single_seeds_are_kept_thinned(made):
    seeds = pd.read_csv(made / "results" / "tiny" / "seeds.csv")
    assert seeds.groupby("key").size().between(5, 40).all() and seeds["key"].nunique() == 6
    assert {"step", "error_workers", "consensus_distance"} <= set(seeds)


def test_the_pages_are_made_of_data_not_of_renderings(made, copy):
    for suffix in ("md", "tex"):
        for path in (copy / "results").rglob(f"*.{suffix}"):
            path.unlink()
    assert not list((copy / "results").rglob("table*.[mt]*"))
    page.build(copy / "results", copy / "report", copy / "configs")
    for path in (made / "report").rglob("*.*"):
        again = copy / "report" / path.relative_to(made / "report")
        assert again.read_bytes() == path.read_bytes(), path.name


OPTIONAL = """
name = "optional"
[run]
algorithm = "dsgd_atc"
topology = "ring"
nodes = 2
steps = 4
lr = 0.1
record_every = 2
[run.problem]
kind = "classification"
dataset = "digits"
model = "mlp"
[[sweep]]
problem = [
    { %s },
    { %s, partition = "dirichlet", alpha = 0.1 },
    { %s, partition = "dirichlet", alpha = 9.0 },
]
seed = [0, 1]
[table]
title = "An optional key"
column = "problem.alpha"
""".replace("%s", 'kind = "classification", dataset = "digits", model = "mlp"')


def test_a_key_that_some_runs_lack_is_none_on_every_page(tmp_path):
    configs, root = tmp_path / "configs", tmp_path / "results"
    configs.mkdir()
    (configs / "optional.toml").write_text(OPTIONAL)
    experiment = load(configs / "optional.toml")
    for run in experiment.runs:
        execute(run, root)
    write_report(experiment, root, "optional")
    page.build(root, tmp_path / "report", configs)
    for name in ("optional.html", "optional-runs.html"):
        text = (tmp_path / "report" / name).read_text()
        assert not re.search(r"\bnan\b", text), name
    shown = (tmp_path / "report" / "optional.html").read_text()
    assert '<th scope="col">none</th><th scope="col">0.1</th><th scope="col">9.0</th>' in shown
    assert '"labels":["0.1","9.0","none"]' in shown  # of the chart's list
    assert "alpha none" in (tmp_path / "report" / "optional-runs.html").read_text()


def test_without_configs_the_folder_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report"]) == 2
    assert capsys.readouterr().err.startswith("no configs/ here")
    assert not list(tmp_path.iterdir())


def test_without_results_every_section_names_its_command(copy):
    shutil.rmtree(copy / "results")
    index = page.build(copy / "results", copy / "report", copy / "configs")
    assert index.is_file()
    text = index.read_text()
    assert "make claims" in text and "make reproduce-table TABLE=tiny" in text
    assert "Not run" in (copy / "report" / "tiny.html").read_text()
    assert "12.34" in (copy / "report" / "tiny.html").read_text()
    assert "make cost-model" in (copy / "report" / "costs.html").read_text()


def test_curves_are_means_only_where_seeds_are_missing(copy):
    (copy / "results" / "tiny" / "seeds.csv").unlink()
    page.build(copy / "results", copy / "report", copy / "configs")
    text = (copy / "report" / "tiny.html").read_text()
    assert "tiny-curves-line0" in text and "tiny-curves-seed1" not in text


def test_an_engines_results_stand_beside_the_embedded_ones(copy):
    shutil.copytree(copy / "results" / "tiny", copy / "results" / "tiny_bluefog")
    page.build(copy / "results", copy / "report", copy / "configs")
    text = (copy / "report" / "tiny.html").read_text()
    assert text.count("Scale: laptop") == 2 and "Scale: laptop, bluefog" in text
    assert (copy / "report" / "tiny_bluefog-runs.html").is_file()


def test_a_folder_of_something_else_is_left_alone(copy):
    (copy / "mine").mkdir()
    (copy / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ReportError, match="mine: holds something other than a report"):
        page.build(copy / "results", copy / "mine", copy / "configs")
    assert (copy / "mine" / "thesis.txt").is_file()
    for target in (copy / "mine" / "thesis.txt", copy / "mine" / "thesis.txt" / "report"):
        with pytest.raises(ReportError, match=r"thesis\.txt") as error:
            page.build(copy / "results", target, copy / "configs")
        assert "\n" not in str(error.value)


def test_what_others_put_into_a_report_stays_and_a_link_stays_one(copy):
    (copy / "place").mkdir()
    (copy / "link").symlink_to(copy / "place")
    page.build(copy / "results", copy / "link", copy / "configs")
    (copy / "place" / "mine").mkdir()
    (copy / "place" / "mine" / "notes.txt").write_text("seen")
    (copy / "place" / "index.html").write_text("old")
    page.build(copy / "results", copy / "link", copy / "configs")
    assert (copy / "link").is_symlink()
    assert (copy / "place" / "mine" / "notes.txt").read_text() == "seen"
    assert "</html>" in (copy / "place" / "index.html").read_text()


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("tiny/table.json", lambda text: text[:-30]),
        ("tiny/table.json", lambda text: text.replace('"mean"', '"mena"', 1)),
        ("tiny/runs.csv", lambda text: text[: len(text) // 2]),
        ("tiny/runs.csv", lambda text: "\n".join(text.splitlines()[:-1]) + "\n"),
        ("tiny/runs.csv", lambda text: text.replace("topology", "t")),
        ("tiny/curves.csv", lambda text: ""),
        ("tiny/curves.csv", lambda text: text.replace("ring", 'ring"')),
        ("tiny/curves.csv", lambda text: text.replace(",60,", ",60,x", 1)),
        ("tiny/provenance.json", lambda text: text[:40]),
        ("tiny/seeds.csv", lambda text: text.replace("step", "k", 1)),
        ("claims.json", lambda text: text.replace('"supported"', '"perhaps"')),
        ("claims.json", lambda text: text.split("\n", 1)[1]),
    ],
)
def test_damaged_results_are_one_line_and_the_old_report_stays(copy, file, damage):
    (copy / "report").mkdir()
    for name in ("index.html", page.LIBRARY):
        (copy / "report" / name).write_text("old")
    path = copy / "results" / file
    path.write_text(damage(path.read_text()))
    with pytest.raises(ReportError) as caught:
        page.build(copy / "results", copy / "report", copy / "configs")
    assert file in str(caught.value) and "\n" not in str(caught.value)
    assert (copy / "report" / "index.html").read_text() == "old"
    assert not list(copy.glob(".report*"))


# ---- in a browser ----------------------------------------------------------------------------

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (  # no window, no calls home
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; the test is skipped where there is none, unless EXPOGRAPH_BROWSER=1."""
    if not Path(CHROMIUM).exists():
        missing = f"no browser at {CHROMIUM}: `apt-get install chromium`, or set CHROMIUM"
        if os.environ.get("EXPOGRAPH_BROWSER") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


@pytest.fixture
def view(browser, request):
    """A page that fails the test on any error in it and any request that leaves the folder."""
    size = getattr(request, "param", {"width": 1280, "height": 900})
    tab, wrong = browser.new_page(viewport=size), []
    tab.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    allowed = ("file:", "data:", "blob:", "about:")
    tab.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(allowed) else None)
    yield tab
    tab.close()
    assert not wrong, wrong


def lines(tab) -> int:
    return tab.locator(".chart .mark-line path").count()


def show(tab, path: Path) -> None:
    tab.goto(path.as_uri())
    for i in range(tab.locator(".chart").count()):
        tab.locator(".chart").nth(i).locator("svg").wait_for()


def test_every_page_opens_by_its_links_and_draws_its_charts(made, view):
    report = made / "report"
    seen, todo = set(), ["index.html"]
    while todo:
        name = todo.pop()
        seen.add(name)
        show(view, report / name)
        links = view.eval_on_selector_all("a[href]", "all => all.map(a => a.getAttribute('href'))")
        targets = {link.partition("#")[0] for link in links}
        todo += sorted(t for t in targets if t.endswith(".html") and t not in {*seen, *todo})
    assert seen == {path.name for path in report.glob("*.html")}


def test_a_link_leads_to_the_runs_of_a_number(made, view):
    show(view, made / "report" / "tiny.html")
    view.get_by_role("link", name=re.compile(r"^\d+\.\d+ ± ")).first.click()
    assert "tiny-runs.html#g" in view.url
    assert view.locator(":target").is_visible()


def test_curves_are_switched_by_topology_and_by_seed(made, view):
    show(view, made / "report" / "tiny.html")
    assert lines(view) == 3
    view.get_by_label("ring", exact=True).uncheck()
    assert lines(view) == 2
    view.get_by_label("seed 0").check()
    assert lines(view) == 4
    view.get_by_label("mean over seeds").uncheck()
    assert lines(view) == 2
    view.get_by_label("seed 1").check()
    view.get_by_label("ring", exact=True).check()
    assert lines(view) == 6
    before = view.locator(".chart .mark-line path").first.get_attribute("d")
    view.get_by_label("shown").select_option("consensus distance, 1/n sum of |x_i - x_bar|^2")
    assert view.locator(".chart .mark-line path").first.get_attribute("d") != before
    view.locator(".chart .mark-symbol path").first.hover(force=True)
    view.locator("#vg-tooltip-element.visible").wait_for()


def test_a_schedule_is_stepped_and_played(made, view):
    show(view, made / "report" / "topology-one_peer_exponential.html")

    def arrows():
        return [
            line.get_attribute("transform") + (line.get_attribute("x2") or "")
            for line in view.locator(".chart .mark-rule.role-mark line").all()
        ]

    first = arrows()
    assert len(first) == 16  # one message a rank
    view.get_by_role("slider", name="step k").focus()
    view.keyboard.press("ArrowRight")
    second = arrows()
    assert second != first and view.get_by_text("mixing matrix W(1)").is_visible()
    for _ in range(2):
        view.keyboard.press("ArrowRight")
    assert view.get_by_text("product W(3) ... W(0)").is_visible()
    assert view.locator(".chart").get_by_text("0.0000").is_visible()  # an exact average
    view.get_by_label("play").check()
    view.get_by_text("mixing matrix W(5)").wait_for(timeout=8000)
    view.get_by_label("play").uncheck()
    view.get_by_label("nodes n").select_option("6")
    assert len(arrows()) == 6


@pytest.mark.parametrize("view", [{"width": 390, "height": 800}], indirect=True)
def test_a_phone_never_scrolls_sideways(made, view):
    for path in sorted((made / "report").glob("*.html")):
        if path.name.startswith("topology-") and "one_peer_exponential.html" not in path.name:
            continue  # one of a kind
        show(view, path)
        width = view.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{path.name} is {width} wide"


def test_the_keyboard_reaches_what_a_chart_offers(made, view):
    show(view, made / "report" / "tiny.html")
    reached = []
    for _ in range(60):
        view.keyboard.press("Tab")
        reached.append(
            view.evaluate(
                "(document.activeElement.name || document.activeElement.className || '') + '|' +"
                "getComputedStyle(document.activeElement).outlineStyle"
            )
        )
    names = [entry.partition("|")[0] for entry in reached]
    assert names[0] == "skip"
    for wanted in ("line0", "seed0", "metric", "first", "log_y"):
        assert wanted in names, names
        assert reached[names.index(wanted)].endswith(("solid", "auto"))  # and is seen to
    view.get_by_label("ring", exact=True).focus()
    view.keyboard.press("Space")
    assert lines(view) == 2
