-- Files: snapshots beside calls and checkpoints, who holds which path, rollbacks and forks.

ALTER TABLE call ADD COLUMN before BLOB;  -- snapshots of what a write may touch, by their digests
ALTER TABLE call ADD COLUMN after BLOB;
ALTER TABLE call ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN line TEXT;  -- of each rollback's head version:base, with spaces between them
ALTER TABLE run ADD COLUMN workspace TEXT;
ALTER TABLE run ADD COLUMN intent BLOB;
ALTER TABLE run ADD COLUMN origin TEXT;
ALTER TABLE run ADD COLUMN forked_from TEXT;
ALTER TABLE checkpoint ADD COLUMN tree BLOB;
ALTER TABLE checkpoint ADD COLUMN environment BLOB;
ALTER TABLE checkpoint ADD COLUMN storage INTEGER NOT NULL DEFAULT 0;

-- The runs made from a run, and the calls of all runs that name one action.
CREATE INDEX run_of_origin ON run (forked_from) WHERE forked_from IS NOT NULL;
CREATE INDEX call_named ON call (identity) WHERE identity_scope = 1;

-- A name whose action was undone is nobody's (run_no 0), and keeps the count of that.
ALTER TABLE identity ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;

-- Paths that open writes hold, each with all below it; the empty path is the whole workspace.  call_seq 0 is a rollback's.
-- The key is all there is to a row; a table apart from it would only cost another page.
CREATE TABLE hold (
    workspace TEXT NOT NULL,
    path      BLOB NOT NULL,
    run_no    INTEGER NOT NULL,
    call_seq  INTEGER NOT NULL,
    PRIMARY KEY (workspace, path, run_no, call_seq)
) WITHOUT ROWID;
CREATE INDEX hold_of_call ON hold (run_no, call_seq);
