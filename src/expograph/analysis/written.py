"""Values, keys and cells in plain text, written in one place: tables, claims and pages agree."""

from expograph.analysis.table_result import Cell, Column
from expograph.looks import look_of

UNAVAILABLE = "not available to us"  # in place of a number that is not published

NAMES = {
    "fully_connected": "fully connected",
    "half_random": "1/2-random",
    "random_match": "random match",
    "static_exponential": "static exponential",
    "one_peer_exponential": "one-peer exponential",
    "one_peer_exponential(order=permutation)": "one-peer exp., permuted",
    "one_peer_exponential(order=uniform)": "one-peer exp., sampled",
    "one_peer_hypercube": "one-peer hypercube",
    "directed_exponential": "directed exponential",
    "bipartite_exponential": "bipartite exponential",
    "bipartite_exponential(rule=qgm)": "bipartite exp., QGM's",
    "k_peer_exponential": "k-peer exponential",
    "null_cascade": "null-cascade",
    "hyper_hypercube": "hyper-hypercube",
    "hyper_cuboid": "hyper-cuboid",
    "simple_base": "simple Base-(k+1)",
    "base": "Base-(k+1)",
    "de_bruijn": "de Bruijn",
    "d_equistatic": "D-EquiStatic",
    "u_equistatic": "U-EquiStatic",
    "od_equidyn": "OD-EquiDyn",
    "ou_equidyn": "OU-EquiDyn",
    "inner_outer_exponential": "inner-outer exponential",
    "alternating_exp_ring": "alternating exp-ring",
    "uniform_gossip": "uniform gossip (push)",
    "directed_random": "directed random (push)",
    "grid": "2D grid",
    "torus": "2D torus",
    "psgd": "parallel SGD",
    "dsgd_atc": "DSGD (ATC)",
    "dsgd_cta": "DSGD (CTA)",
    "dsgd_awc": "DSGD (AWC)",
    "vanilla_dmsgd": "vanilla DmSGD",
    "dmsgd": "DmSGD",
    "dmsgd_delayed": "DmSGD, delayed momentum",
    "qg_dmsgd": "QG-DmSGD",
    "decentlam": "DecentLaM",
    "gradient_tracking": "gradient tracking",
    "exact_diffusion": "exact diffusion (D2)",
    "momentum_tracking": "momentum tracking",
    "sgp": "SGP",
    "gossip_pga": "Gossip-PGA",
    "local_sgd": "local SGD",
    "slowmo": "SlowMo",
    "accum_adam": "accumulating Adam",
    "diloco": "DiLoCo",
    "noloco": "NoLoCo",
    "choco_int": "CHOCO, integers",
    "choco_topk": "CHOCO, top-k",
    "sparta": "SPARTA",
    "cnn": "CNN",
    "mlp": "MLP",
    "resnet8_bn": "ResNet-8 (batch norm)",
    "resnet8_gn": "ResNet-8 (group norm)",
    "resnet50": "ResNet-50",
    "resnet56": "ResNet-56",
    "mobilenet_v2": "MobileNet-v2",
    "efficientnet_b0": "EfficientNet-B0",
    "retinanet_small": "RetinaNet (small)",
    "faster_rcnn_small": "Faster R-CNN (small)",
    "retinanet_resnet50_fpn": "RetinaNet, ResNet-50 FPN",
    "faster_rcnn_resnet50_fpn": "Faster R-CNN, ResNet-50 FPN",
}


def name_of(value: object) -> str:
    """What a table or legend shows for a config value: "ring", "2D grid", "none"."""
    text = "none" if value is None else str(value)
    name, bracket, parameters = text.partition("(")
    if own := look_of(text).name:
        return f"{own} ({parameters}" if bracket else own
    if text in NAMES or not bracket or not name.isidentifier():  # not "base(k=2)"
        return NAMES.get(text, text)
    return f"{NAMES.get(name, name)} ({parameters}"


def heading_of(key: str) -> str:
    """A config key as a column's heading: "problem.model" -> "model"."""
    return key.rsplit(".", 1)[-1]


def column_name(key: str, value: object) -> str:
    """The heading of a column that stands for one value of a config key."""
    return f"{value} nodes" if key == "nodes" else name_of(value)


def written(cell: Cell, column: Column) -> str:
    """A cell as plain text: "80.69 ± 1.93", "120 [90, > 3000]", "+1.2 ± 0.4 (p = 0.01)", "".

    Its `text` comes first; numbers have the column's format, and `planned` the number of seeds
    that a mean has so far.
    """
    if cell.text is not None:
        return cell.text
    number = _formatted(cell.mean, cell, column.format)
    if cell.mean is None:
        return number
    if cell.planned is not None:
        return f"{number} ({cell.count} of {cell.planned})"
    if cell.half_width is not None:
        number += f" ± {format(cell.half_width, column.format.removeprefix('+'))}"
    if cell.low is not None or cell.high is not None or cell.beyond is not None:
        ends = (_formatted(end, cell, column.format) for end in (cell.low, cell.high))
        number += f" [{', '.join(ends)}]"
    if cell.p is not None:
        number += f" (p = {cell.p:.2g})"
    return number


def published(cell: Cell, column: Column) -> str:
    """The number published elsewhere for a cell, or that none is available."""
    return UNAVAILABLE if cell.published is None else format(cell.published, column.format)


def _formatted(number: float | None, cell: Cell, style: str) -> str:
    """A number of a cell; where there is none, what it lies beyond."""
    if number is not None:
        return format(number, style)
    return "" if cell.beyond is None else f"> {format(cell.beyond, style)}"
