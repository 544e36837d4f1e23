"""What drives a run: flows as generators, two drivers, leases, and the scope a piece of code runs in."""
