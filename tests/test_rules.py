"""The newer rules: against their twins over every topology that they allow, and on a quadratic."""

import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from quadratic import Quadratic
from twins import TWINS, Setting

import expograph as eg
from expograph import algorithms, names
from expograph.algorithms.codes import integers, largest
from expograph.config import Run
from expograph.config.facts import ALGORITHMS as FACTS
from expograph.engines.embedded import Embedded
from expograph.graphs.checks import ScheduleError, check_schedule
from expograph.graphs.topology import Topology, build
from expograph.graphs.topology import names as topologies
from expograph.rule_parameters import PARAMETERS
from expograph.runs import saved_state
from expograph.runs.train import train

D, STEPS, LR, BETA, SEED = 5, 9, 0.1, 0.8, 3
SHORT = {  # what must happen within STEPS
    "gossip_pga": "gossip_pga(every=3)",
    "local_sgd": "local_sgd(every=2, outer_lr=0.7, outer_beta=0.6)",
    "slowmo": "slowmo(every=4, slow_lr=0.9, slow_beta=0.6)",
    "accum_adam": "accum_adam(cycle=3, beta2=0.9)",
    "diloco": "diloco(every=3)",
    "noloco": "noloco(every=2)",
    "choco_int": "choco_int(bits=4, consensus_lr=0.7)",
    "choco_topk": "choco_topk(fraction=0.4)",
    "sparta": "sparta(fraction=0.4)",
}
SPELLINGS = [SHORT.get(name, name) for name in TWINS] + ["choco_int(bits=2)", "accum_adam(cycle=1)"]


def rule_of(spelling):
    return algorithms.build(spelling, SEED)


def allowed(rule, schedule) -> bool:
    try:
        check_schedule(schedule, rule.stochastic, rule.needs)
    except ScheduleError:
        return False
    return True


def schedules(spelling, n):
    rule = rule_of(spelling)
    return [s for s in (build(name, n, seed=5) for name in topologies(n)) if allowed(rule, s)]


def twin(spelling, schedule, problem, steps, lr, beta):
    name, given = names.parse(spelling)
    setting = Setting(
        schedule.n,
        steps,
        np.ones(problem.dim),
        lr,
        beta,
        problem.gradient_of,
        lambda k: schedule.at(k).dense(),
        SEED,
    )
    return np.stack(TWINS[name](setting, **given))


def trained(spelling, schedule, problem, steps, lr=LR, beta=BETA, engine=None):
    rule = rule_of(spelling)
    beta = beta if rule.momentum else 0.0
    *_, last = train(problem, rule, schedule, engine, steps=steps, step_size=lr, beta=beta)
    return last


@pytest.mark.parametrize(("spelling", "n"), [*product(SPELLINGS, range(1, 10))])
def test_train_equals_its_twin_over_every_topology_it_allows(spelling, n):
    problem, found = Quadratic(n), schedules(spelling, n)
    assert len(found) >= 6
    for schedule in found:
        ours = trained(spelling, schedule, problem, STEPS).x.numpy()
        beta = BETA if rule_of(spelling).momentum else 0.0
        theirs = twin(spelling, schedule, problem, STEPS, LR, beta)
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10, err_msg=schedule.name)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_step_leaves_its_input_alone(spelling):
    rule, schedule = rule_of(spelling), build("ring", 4)
    engine, state = Embedded(schedule), rule.init(torch.rand(4, D, dtype=torch.float64))
    for k in range(STEPS):
        kept = [v.clone() if isinstance(v, torch.Tensor) else v for v in state]
        new = rule.step(state, torch.sin, engine.mixer(k // rule.every), LR, BETA)
        for before, after in zip(kept, state, strict=True):
            same = torch.equal if isinstance(before, torch.Tensor) else int.__eq__
            assert same(before, after)
        state = new


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_saved_state_is_taken_up_to_the_last_bit_by_any_division_of_the_ranks(spelling, tmp_path):
    rule, schedule, problem = rule_of(spelling), build("ring", 4), Quadratic(4)
    settings = {"steps": STEPS, "step_size": LR, "beta": BETA if rule.momentum else 0.0}
    saved = {}

    def save(step, position):
        if step == 5:
            file = saved_state.write(tmp_path, position(), range(4), [])
            saved["manifest"] = SimpleNamespace(step=5, files=[file])

    *_, whole = train(problem, rule, schedule, after_step=save, **settings)
    cpu = torch.device("cpu")
    start = saved_state.read(tmp_path, saved["manifest"], range(4), cpu).position
    *_, resumed = train(problem, rule, schedule, start=start, **settings)
    assert torch.equal(resumed.x, whole.x) and resumed.values.keys() == whole.values.keys()
    assert resumed.values["bytes_sent_mean"] == whole.values["bytes_sent_mean"]
    part = saved_state.read(tmp_path, saved["manifest"], range(1, 3), cpu).position.state
    for name, value in start.state.items():
        same = value[1:3] if isinstance(value, torch.Tensor) else value
        assert (
            torch.equal(part[name], same) if isinstance(value, torch.Tensor) else part[name] == same
        )


# ---- bytes ---------------------------------------------------------------------------------------

BYTES = {  # a step's bytes of a worker over a ring of 5: two neighbors, d = 40 numbers of 8 bytes
    "gradient_tracking": lambda k: 2 * 2 * 320,
    "exact_diffusion": lambda k: 2 * 320,
    "momentum_tracking": lambda k: 2 * 2 * 320 + (512 if k == 0 else 0),  # 2 (n - 1) / n x 320
    "decentlam": lambda k: 2 * 320,
    "sgp": lambda k: 2 * (320 + 8),
    "gossip_pga(every=3)": lambda k: 512 if k % 3 == 2 else 2 * 320,
    "local_sgd(every=3)": lambda k: 2 * 320 if k % 3 == 2 else 0,
    "slowmo(every=3)": lambda k: 2 * 320 + (512 if k % 3 == 2 else 0),
    "accum_adam": lambda k: 2 * 320,
    "diloco(every=3)": lambda k: 2 * 320 if k % 3 == 2 else 0,
    "noloco(every=3)": lambda k: 2 * 2 * 320 if k % 3 == 2 else 0,
    "choco_int": lambda k: 2 * (8 + 40),
    "choco_int(bits=4)": lambda k: 2 * (8 + 20),
    "choco_int(bits=2)": lambda k: 2 * (8 + 10),
    "choco_topk": lambda k: 2 * 4 * (4 + 8),
    "sparta(fraction=0.1)": lambda k: 2 * 4 * 8,
}


@pytest.mark.parametrize("spelling", BYTES)
def test_bytes_counted_are_those_sent(spelling):
    last = trained(spelling, build("ring", 5), Quadratic(5, dim=40), STEPS)
    assert last.values["bytes_sent_max"] == sum(map(BYTES[spelling], range(STEPS)))
    assert last.values["bytes_sent_mean"] == last.values["bytes_sent_max"]


def test_every_newer_rule_has_its_bytes():
    assert {names.parse(spelling)[0] for spelling in BYTES} == set(TWINS)


def test_an_all_to_all_of_coded_messages_is_no_all_reduce():
    """Sums of codes cannot be coded on the way: each rank sends to each other."""
    last = trained("choco_int", build("fully_connected", 5), Quadratic(5, dim=40), STEPS)
    assert last.values["bytes_sent_max"] == STEPS * 4 * (8 + 40)


@pytest.mark.parametrize("code", [*map(integers, (2, 4, 8)), largest(0.3), largest(1e-9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 5, 8])
def test_a_code_is_a_contraction_and_knows_its_width(code, dtype, d):
    x = torch.randn(6, d, dtype=dtype) ** 3
    x[0] = 0
    wire = code.encode(x)
    assert wire.dtype == torch.uint8 and len(wire) == 6
    back = code.decode(wire, x)
    assert back.dtype == dtype and torch.equal(back[0], x[0])
    assert torch.equal(code.decode(wire[2:4], x), back[2:4])  # of any rows
    assert bool(((x - back).norm(dim=1)[1:] < x.norm(dim=1)[1:]).all())


def test_integers_are_off_by_half_a_unit_at_most_and_all_numbers_of_topk_come_back():
    x = torch.randn(4, 33, dtype=torch.float64)
    unit = x.abs().amax(dim=1, keepdim=True) / 127
    code = integers(8)
    assert bool(((code.decode(code.encode(x), x) - x).abs() <= unit / 2 * (1 + 1e-9)).all())
    assert torch.equal(largest(1.0).decode(largest(1.0).encode(x), x), x)


# ---- a quadratic whose minimiser is known --------------------------------------------------------


def minimiser(problem):
    return problem.targets.mean(axis=0)


def biased(W, problem, lr):
    """The fixed point (n, d) of DSGD (ATC) with constant lr: x = W (x - lr C (x - t))."""
    n, columns = problem.workers, []
    for c, curvature in enumerate(problem.curvature):
        A = np.eye(n) - (1 - lr * curvature) * W
        columns.append(np.linalg.solve(A, lr * curvature * (W @ problem.targets[:, c])))
    return np.stack(columns, axis=1)


EXACT = [
    *product(["gradient_tracking", "momentum_tracking"], ["ring", "star", "static_exponential"]),
    ("gradient_tracking", "one_peer_exponential"),
    ("momentum_tracking", "one_peer_exponential"),
    *product(["exact_diffusion"], ["ring", "star", "grid", "one_peer_hypercube", "random_match"]),
]


@pytest.mark.parametrize(("name", "topology"), EXACT)
def test_exact_rules_reach_the_optimum_though_the_data_differ(name, topology):
    problem = Quadratic(6, noise=0.0)
    last = trained(name, build(topology, 6), problem, 700, lr=0.1, beta=0.5)
    wanted = np.broadcast_to(minimiser(problem), last.x.shape)
    np.testing.assert_allclose(last.x.numpy(), wanted, rtol=0, atol=1e-9)


def test_dsgd_stops_at_the_bias_that_its_fixed_point_has():
    problem, schedule = Quadratic(6, noise=0.0), build("ring", 6)
    last = trained("dsgd_atc", schedule, problem, 800)
    predicted = biased(schedule.at(0).dense(), problem, LR)
    np.testing.assert_allclose(last.x.numpy(), predicted, atol=1e-10)
    assert np.abs(predicted - minimiser(problem)).max() > 0.01


def test_decentlam_has_the_bias_of_dsgd_and_dmsgd_a_larger_one():
    """x = W (x - lr g) at rest, whatever beta; local momentum makes lr / (1 - beta) of lr."""
    problem, schedule = Quadratic(6, noise=0.0), build("ring", 6)
    W = schedule.at(0).dense()
    ours = trained("decentlam", schedule, problem, 1000, lr=0.03, beta=0.8).x.numpy()
    vanilla = trained("vanilla_dmsgd", schedule, problem, 600, lr=0.03, beta=0.8).x.numpy()
    np.testing.assert_allclose(ours, biased(W, problem, 0.03), atol=1e-9)
    np.testing.assert_allclose(vanilla, biased(W, problem, 0.15), atol=1e-9)
    theirs, best = np.abs(vanilla - minimiser(problem)), np.abs(ours - minimiser(problem))
    assert theirs.max() > 4 * best.max()


@pytest.mark.parametrize(
    ("spelling", "topology"),
    [
        *product(
            ["choco_int", "choco_int(bits=2, consensus_lr=0.3)", "choco_topk"], ["ring", "star"]
        )
    ],
)
def test_choco_ends_where_uncompressed_gossip_of_its_consensus_step_ends(spelling, topology):
    """At rest hat = x^half: x = V (x - lr m), V = I + consensus_lr (W - I)."""
    problem, schedule = Quadratic(6, noise=0.0), build(topology, 6)
    given = algorithms.parameters(names.parse(spelling)[0]) | names.parse(spelling)[1]
    V = np.eye(6) + given["consensus_lr"] * (schedule.at(0).dense() - np.eye(6))
    last = trained(spelling, schedule, problem, 900, lr=0.1, beta=0.0)
    np.testing.assert_allclose(last.x.numpy(), biased(V, problem, 0.1), atol=1e-7)


def pushes(n: int) -> Topology:
    """A directed ring with a chord; each rank divides what it has over those it sends to."""
    A = np.eye(n) + np.roll(np.eye(n), 1, axis=0)
    A[n // 2, 0] += 1
    return eg.topology(A / A.sum(axis=0), stochastic="column")


def test_push_sum_reaches_the_optimum_of_the_mean_where_rows_are_uneven():
    """As lr falls z_i tend to the minimiser of the mean, not to one weighted by W's eigenvector."""
    schedule, problem = pushes(6), Quadratic(6, noise=0.0)
    W = schedule.at(0).dense()
    assert np.ptp(W.sum(axis=1)) > 0.3 and not allowed(rule_of("dsgd_atc"), schedule)
    ours = trained("sgp", schedule, problem, 4000, lr=lambda k: 0.5 / (1 + k / 20), beta=0.0)
    off = np.abs(ours.x.numpy() - minimiser(problem)).max()
    values, vectors = np.linalg.eig(W)
    weights = vectors[:, values.real.argmax()].real  # what x tends to without its weights w
    weighted = (weights / weights.sum()) @ problem.targets
    assert off < 0.02 and np.abs(weighted - minimiser(problem)).max() > 0.1


@pytest.mark.parametrize("spelling", ["gossip_pga(every=3)", "slowmo(every=3)"])
def test_exact_averages_leave_no_disagreement(spelling):
    problem, schedule = Quadratic(6), build("ring", 6)
    assert trained(spelling, schedule, problem, 3).values["consensus_distance"] < 1e-25
    assert trained(spelling, schedule, problem, 4).values["consensus_distance"] > 1e-6


def test_adam_with_a_cycle_of_one_is_torchs():
    problem = Quadratic(1)
    ours = trained("accum_adam(cycle=1)", build("ring", 1), problem, 20, beta=0.9).x[0]
    x = torch.ones(problem.dim, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([x], lr=LR, betas=(0.9, 0.999))
    for k in range(20):
        x.grad = torch.from_numpy(problem.gradient_of(0, k, x.detach().numpy()))
        optimizer.step()
    torch.testing.assert_close(ours, x.detach())


def test_sparta_draws_by_seed_and_message():
    problem, schedule = Quadratic(4, dim=40), build("ring", 4)
    first, again = (trained("sparta(fraction=0.2)", schedule, problem, 5).x for _ in range(2))
    assert torch.equal(first, again)
    other = algorithms.build("sparta(fraction=0.2)", SEED + 1)
    *_, last = train(problem, other, schedule, steps=5, step_size=LR, beta=BETA)
    assert not torch.equal(first, last.x)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "topology", "message"),
    [
        ("decentlam", "static_exponential", "step 0: the algorithm needs symmetric matrices"),
        ("decentlam", "one_peer_hypercube", "the algorithm needs the same matrix at each step"),
        ("exact_diffusion", "one_peer_exponential", "the algorithm needs symmetric matrices"),
        ("choco_int", "random_match", "the algorithm needs the same matrix at each step"),
    ],
)
def test_matrices_that_a_rule_does_not_allow_are_refused_in_one_line(spelling, topology, message):
    with pytest.raises(ScheduleError, match=message) as error:
        trained(spelling, build(topology, 8), Quadratic(8), 2)
    assert "\n" not in str(error.value)


def run_with(**changes):
    values = {
        "problem": {"kind": "logistic"},
        "topology": "ring",
        "nodes": 4,
        "steps": 3,
        "lr": 0.1,
    }
    return Run.model_validate(values | changes)


WRONG = [
    ("gossip_pga(every=0)", "gossip_pga: every must be at least 1, got 0"),
    ("local_sgd(outer_beta=1.0)", "local_sgd: outer_beta must be in [0, 1), got 1.0"),
    ("choco_int(bits=3)", "choco_int: bits must be one of 2, 4, 8, got 3"),
    ("choco_topk(fraction=0.0)", "choco_topk: fraction must be in (0, 1], got 0.0"),
    ("choco_topk(bits=8)", "unknown parameter of choco_topk 'bits'"),
    ("sparta(seed=3)", "unknown parameter of sparta 'seed'"),
    ("slowmo(every=2.5)", "slowmo: every = 2.5: expected int"),
    ("decentlam(every=2)", "algorithm 'decentlam' has no parameters, got 'every'"),
]


@pytest.mark.parametrize(("spelling", "message"), WRONG)
def test_a_wrong_parameter_is_one_line_in_configs_and_in_python(spelling, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        run_with(algorithm=spelling)
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        algorithms.build(spelling)
    assert "\n" not in str(error.value)


def test_servers_of_several_ranks_are_refused_where_messages_are_coded():
    with pytest.raises(ValueError, match=r"choco_int needs local_size = 1"):
        run_with(algorithm="choco_int", local_size=2)


def test_an_engine_of_all_reduces_is_refused_where_messages_are_coded():
    with pytest.raises(ValueError, match=r"'horovod' cannot send choco_topk's messages"):
        run_with(algorithm="choco_topk", engine="horovod", topology="fully_connected")


def test_a_default_leaves_no_trace_in_the_key_and_another_value_does():
    assert run_with(algorithm="gossip_pga(every=6)").key == run_with(algorithm="gossip_pga").key
    assert run_with(algorithm="gossip_pga(every=5)").key != run_with(algorithm="gossip_pga").key


def test_every_parameter_has_its_meaning_and_its_default_is_allowed():
    found = [item for facts in FACTS.values() for item in facts.parameters.items()]
    assert {key for key, _ in found} == set(PARAMETERS)
    assert all(PARAMETERS[key].allows(default) for key, default in found)


# ---- the table of the docs -----------------------------------------------------------------------


def test_the_docs_table_has_every_rule_with_the_memory_that_its_state_takes():
    page = Path(__file__).parent.parent / "docs" / "concepts.md"
    section = page.read_text().split("## Rules, side by side")[1].split("\n## ")[0]
    memory = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            memory |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), int(cells[2]))
    assert set(memory) | {"dmsgd_delayed"} == set(algorithms.ALGORITHMS)
    for name, vectors in memory.items():
        state = algorithms.build(name).init(torch.zeros(2, D))
        kept = [v for v in state if isinstance(v, torch.Tensor) and v.shape == (2, D)]
        assert len(kept) - 1 == vectors, name
