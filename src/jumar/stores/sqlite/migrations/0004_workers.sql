-- Runs whose process keeps ending, and who is to run what is due.

ALTER TABLE run ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN crash_seq INTEGER NOT NULL DEFAULT 0;

-- What is ready at once: runs that nobody has begun, of each agent by itself, since a worker asks for the oldest of its own; and
-- runs that wait although they were ordered to stop.  One index, as each costs a page even where it is empty.
DROP INDEX run_ordered;
CREATE INDEX run_ready ON run (status, agent, run_id) WHERE status = 0 OR (status = 2 AND control <> 0);
