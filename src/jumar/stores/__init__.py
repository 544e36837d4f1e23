"""Where runs are kept.  Stores know SQL and no rules: they check guards and move rows."""
