"""Numbers from results: statistics, tables as data, transient iterations, the cost model."""
