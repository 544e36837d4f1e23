"""The PostgreSQL store: psycopg 3, SQL in `.sql` files, one round trip an advance."""
