"""What a step and a training cost on a network: the model, its fits and the study."""
