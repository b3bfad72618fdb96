"""The paper's experiment as code: runs, grids of runs that survive a kill, statistics, tables,
curves, a report."""
