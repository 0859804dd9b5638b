"""One run and many: the training loop, runs on disk, pools of processes, where a number is from."""
