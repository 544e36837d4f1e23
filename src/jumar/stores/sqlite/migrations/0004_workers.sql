-- Runs whose process keeps ending, and who is to run what is due.

ALTER TABLE run ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN crash_seq INTEGER NOT NULL DEFAULT 0;

-- A worker asks for the oldest of its own agents', whatever others have in the queue.
CREATE INDEX run_queued ON run (agent, run_id) WHERE status = 0;
