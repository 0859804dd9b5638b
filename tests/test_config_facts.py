"""The facts that config checks rest on are those of the packages (`config/facts.py`)."""

import pytest

from expograph import data, engines, networks
from expograph.config import METRICS, Run, facts
from expograph.config.problem_settings import KINDS, Classification
from expograph.data import images, partition, scenes
from expograph.networks import detectors


def test_names_are_those_of_the_packages():
    assert list(facts.DATASETS) == list(data.DATASETS)
    assert set(facts.MODELS) == set(networks.MODELS)
    assert set(facts.DETECTORS) == set(detectors.DETECTORS)
    assert list(facts.PARTITIONS) == list(partition.PARTITIONS)
    assert list(facts.ENGINES) == list(engines.ENGINES)
    assert set(facts.PROBLEMS) == set(KINDS)
    augmentations = Classification.model_fields["augment"].annotation.__args__
    assert augmentations == images.AUGMENTATIONS


@pytest.mark.parametrize("name", ["digits", "fashion_mnist", "fashion_scenes"])
def test_sizes_are_those_of_the_data(name):
    """Of those that can be made here; the sizes of the others are the published ones."""
    try:
        found = data.load(name)
    except data.DataUnavailable as e:
        pytest.skip(str(e))
    assert len(found.train_labels) == facts.DATASETS[name].size
    assert isinstance(found, scenes.Scenes) == (facts.DATASETS[name].kind == "scenes")
    assert not isinstance(found, data.Folder) and not facts.DATASETS[name].any_size


@pytest.mark.parametrize("name", facts.MODELS)
def test_batch_norm_is_where_the_facts_say(name):
    # five classes, the smallest images that every network takes
    network = networks.build(name, (32, 32, 3), 5)
    kinds = {type(module).__name__ for module in network.modules()}
    assert any(kind.startswith("BatchNorm") for kind in kinds) == facts.MODELS[name].batch_norm


def test_summaries_tell_metrics_from_config_keys():
    """A recorded metric whose name is a config key's has a name of its own in summaries."""
    shared = set(facts.RECORDED) & {*Run.model_fields, "key", "status", "commit", "code"}
    assert shared == {"lr"} and facts.FINAL + "lr" in METRICS
    assert not set(METRICS) & set(Run.model_fields)


def test_each_metric_is_given_by_the_problems_that_measure_it():
    assert facts.gives("logistic", "error_workers_over_psgd")
    assert facts.gives("detection", "map_50") and not facts.gives("classification", "map_50")
    for kind in facts.PROBLEMS:
        assert facts.gives(kind, "train_loss") and facts.gives(kind, "final_lr")
        assert any(facts.gives(kind, metric) for metric in facts.PROBLEMS[kind].metrics)
