"""What each algorithm is compared with: itself over exact averaging."""

OVER_EXACT = {  # algorithm -> the one whose runs over fully_connected are its reference
    "dsgd_atc": "psgd",
    "dsgd_awc": "psgd",
    "vanilla_dmsgd": "psgd",
}


def over_exact(algorithm: str) -> str:
    """The name under which an algorithm over exact averaging is run."""
    return OVER_EXACT.get(algorithm, algorithm)


def is_reference(algorithm: str, topology: str) -> bool:
    """Whether such runs are what others are compared with."""
    return topology == "fully_connected" and over_exact(algorithm) == algorithm
