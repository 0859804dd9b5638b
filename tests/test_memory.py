"""Memory that is used again is never in use twice."""

import gc

import pytest
import torch
from graphs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st

from expograph import memory
from expograph.engines.embedded import Embedded
from expograph.graphs.topology import build


@pytest.fixture(autouse=True)
def small_arrays_count_as_large(monkeypatch):
    monkeypatch.setattr(memory, "LARGEST_KEPT", 0)
    memory._free.clear()


def test_it_is_used_again_when_nobody_holds_it():
    like = torch.zeros(4, 1000)
    first = memory.empty_like(like)
    place = first.data_ptr()
    assert memory.empty_like(like).data_ptr() != place  # it is held
    del first
    assert memory.empty_like(like).data_ptr() == place


@pytest.mark.parametrize("share", [lambda x: x[2:], torch.Tensor.numpy, torch.Tensor.detach])
def test_a_view_holds_it(share):
    like = torch.zeros(4, 1000)
    array = memory.empty_like(like)
    place, view = array.data_ptr(), share(array)
    del array
    gc.collect()
    others = [memory.empty_like(like) for _ in range(3)]
    assert place not in [other.data_ptr() for other in others]
    del view
    assert memory.empty_like(like).data_ptr() == place


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_it_is_like_what_it_was_asked_for(dtype):
    like = torch.zeros(3, 5, dtype=dtype).t()
    array = memory.empty_like(like)
    assert (array.shape, array.dtype, array.is_contiguous()) == (like.shape, dtype, True)


def test_what_is_free_and_of_another_size_is_given_back():
    memory.empty_like(torch.zeros(1000))
    assert len(memory._free) == 1
    kept = memory.empty_like(torch.zeros(10))
    assert not memory._free and len(kept) == 10


@settings(max_examples=40, deadline=None)
@given(
    graphs(st.integers(1, 9), None),
    st.lists(st.integers(0, 5), min_size=1, max_size=30),
)
def test_what_a_mix_returned_never_changes(graph, order):
    """Results are held and dropped in any order; each keeps the values it came with."""
    name, n = graph
    engine = Embedded(build(name, n))
    held = {}
    for k, place in enumerate(order):
        held.pop(place, None)
        x = next(iter(held.values()))[0] if held else torch.randn(n, 70_000 if k % 2 else 7)
        before, mixed = x.clone(), engine.mixer(k)(x)
        assert torch.equal(x, before)
        held[place] = mixed, mixed.clone()
        assert all(torch.equal(now, then) for now, then in held.values())
