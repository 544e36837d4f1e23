"""What the stores and the workspace share: SQLite files on this host, `.sql` files, and what a fork leaves alone."""
