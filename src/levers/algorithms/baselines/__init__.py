"""What people do instead: methods that spend a number of runs, recommend a setting, and promise nothing."""
