"""Mathematics of averaging: mixing matrices, schedules of them, what they imply and predict."""
