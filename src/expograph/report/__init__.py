"""Tables and figures: pure functions of the tidy results; nothing here trains."""
