-- Names of actions, the calls that a failed run failed with, questions that expire, and what can go on.

ALTER TABLE call ADD COLUMN identity TEXT;
ALTER TABLE call ADD COLUMN identity_scope INTEGER;
ALTER TABLE run ADD COLUMN failed_calls TEXT;  -- numbers with spaces between them
ALTER TABLE run ADD COLUMN ordered_by TEXT;  -- who gave the order that control holds
ALTER TABLE run ADD COLUMN order_note TEXT;
ALTER TABLE request ADD COLUMN expires_at INTEGER;

-- Who holds the name of an action.  scope_run is 0 for a name that reaches over the whole store (no run has that number), else
-- the number of the run within which it reaches.
CREATE TABLE identity (
    identity_no INTEGER PRIMARY KEY,
    scope_run   INTEGER NOT NULL,
    key         TEXT NOT NULL,
    run_no      INTEGER NOT NULL,
    call_seq    INTEGER NOT NULL,
    args_digest BLOB NOT NULL
);
CREATE UNIQUE INDEX identity_by_key ON identity (scope_run, key);
CREATE INDEX identity_of_call ON identity (run_no, call_seq);

-- What still waits for somebody, oldest first; answered requests are not in it.
CREATE INDEX request_open ON request (created_at, request_id) WHERE verdict IS NULL;
-- The same of one run.
CREATE INDEX request_unanswered ON request (run_no, request_no) WHERE verdict IS NULL;

-- Runs whose time has come, in the order in which it came.
DROP INDEX run_due;
CREATE INDEX run_due ON run (wake_at, run_id) WHERE wake_at IS NOT NULL;
-- Runs that wait although they were ordered to stop.
CREATE INDEX run_ordered ON run (run_id) WHERE status = 2 AND control <> 0;
