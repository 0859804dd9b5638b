"""What `make chaos` and `make soak` say, and that they can say no."""

from expograph.analysis.table_result import load, save
from expograph.measure import chaos, reliability, soak
from expograph.measure.soak import Sample

MADE = {"cpu": "a CPU", "cores": 2, "commit": "c"}


def samples(memory=lambda k: 1e8, files=lambda k: 5):
    return [Sample(float(k), int(memory(k)), files(k)) for k in range(100)]


def test_a_leak_is_found_and_noise_is_none():
    assert not soak.has_grown(samples())
    assert not soak.has_grown(samples(memory=lambda k: 1e8 * (1 + 0.04 * (k % 2))))
    assert not soak.has_grown(samples(memory=lambda k: 1e8 if k > 5 else 5e7))  # the warm-up
    assert soak.has_grown(samples(memory=lambda k: 1e8 * (1 + k / 500)))
    assert soak.has_grown(samples(files=lambda k: 5 + k // 50))


def test_small_runs_follow_each_other_and_leave_nothing(tmp_path):
    found = list(soak.soak(1.0, tmp_path))
    assert len(found) > 1 and found[-1].seconds >= 1 > found[-2].seconds
    assert all(one.memory > 1e7 and one.files > 0 for one in found)
    assert not list(tmp_path.glob("runs/*"))


def test_each_command_renews_its_table_and_keeps_the_other(tmp_path):
    count = chaos.Count("embedded", "its process")
    made_by = {"c": chaos.table_of([count]), "d": soak.table_of(samples())}
    count.kills = 7
    for commit, table in {**made_by, "e": chaos.table_of([count])}.items():
        page = reliability.with_table(tmp_path, table, {**MADE, "commit": commit})
        save(page, tmp_path / reliability.FOLDER)
    page = load(tmp_path / reliability.FOLDER)
    assert [table.id for table in page.tables] == ["kills", "soak"]
    assert page["kills"].cell("kills", engine="embedded", killed="its process").mean == 7
    told = " ".join(page.notes)
    assert "commit e" in told and "commit d" in told and "commit c" not in told
