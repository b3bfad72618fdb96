"""The paper's experiment: runs, grids of runs that survive a kill, and a report of them."""
