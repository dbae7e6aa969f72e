"""What the tests share: the table of cases, how its values are made, where real data are. NumPy and SciPy alone, but for `asking`."""
