"""What tables, figures and claims call the values of a config."""

NAMES = {
    "fully_connected": "fully connected",
    "half_random": "1/2-random",
    "random_match": "random match",
    "static_exponential": "static exponential",
    "one_peer_exponential": "one-peer exponential",
    "one_peer_exponential_permutation": "one-peer exp., permuted",
    "one_peer_exponential_uniform": "one-peer exp., sampled",
    "one_peer_hypercube": "one-peer hypercube",
    "grid": "2D grid",
    "torus": "2D torus",
    "psgd": "parallel SGD",
    "dsgd_atc": "DSGD (ATC)",
    "dsgd_cta": "DSGD (CTA)",
    "dsgd_awc": "DSGD (AWC)",
    "vanilla_dmsgd": "vanilla DmSGD",
    "dmsgd": "DmSGD",
    "qg_dmsgd": "QG-DmSGD",
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
    """What a table or legend shows for a config value."""
    return NAMES.get(str(value), str(value))
