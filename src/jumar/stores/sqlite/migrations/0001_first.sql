-- The first schema.
--
-- Rows carry an integer run number, enums are integers, digests are 32-byte blobs.  Arguments and results up to 2 KiB sit in the
-- call row; larger ones in `artifact`, a plain rowid table (a WITHOUT ROWID row over about 1,000 bytes would spill into overflow
-- pages).  Calls are appended in the order they are written, so runs that go on side by side share the last page.

CREATE TABLE run (
    run_no        INTEGER PRIMARY KEY,
    run_id        TEXT NOT NULL,
    reversed_id   TEXT NOT NULL,  -- read backwards, so that the end of an id finds its run by an index
    agent         TEXT NOT NULL,
    agent_version TEXT NOT NULL,
    task          TEXT NOT NULL,
    status        INTEGER NOT NULL,
    phase         INTEGER NOT NULL,
    step          INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    owner         TEXT,
    epoch         INTEGER NOT NULL,
    boot          BLOB NOT NULL,
    lease_until   INTEGER NOT NULL,
    control       INTEGER NOT NULL,
    answers       INTEGER NOT NULL,
    wake_at       INTEGER,
    waiting_on    TEXT,
    input_digest  BLOB,
    output_digest BLOB,
    error_class   INTEGER,
    error_type    TEXT,
    error_message TEXT,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
);
CREATE UNIQUE INDEX run_by_id ON run (run_id);
CREATE INDEX run_by_end ON run (reversed_id);
CREATE INDEX run_by_status ON run (status, run_id);
CREATE INDEX run_by_agent ON run (agent, run_id);
CREATE INDEX run_due ON run (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE call (
    call_no         INTEGER PRIMARY KEY,
    run_no          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    call_id         TEXT NOT NULL,
    branch          TEXT NOT NULL,
    step            TEXT NOT NULL,
    ordinal         INTEGER NOT NULL,
    kind            INTEGER NOT NULL,
    tool            TEXT NOT NULL,
    effect          INTEGER NOT NULL,
    state           INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    epoch           INTEGER NOT NULL,
    generation      INTEGER NOT NULL,
    args_digest     BLOB NOT NULL,
    args            BLOB,
    args_artifact   BLOB,
    key             TEXT,
    result          BLOB,
    result_artifact BLOB,
    failure         BLOB,
    usage           BLOB,
    boot            BLOB,
    dispatch_by     INTEGER,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    started_version INTEGER NOT NULL,
    ended_version   INTEGER,
    checksum        INTEGER NOT NULL,
    over_at         INTEGER
);
CREATE UNIQUE INDEX call_of_run ON call (run_no, seq);
-- States 0, 1, 2 and 5: planned, awaiting, started, uncertain.  What a claim and a leaving run must look at, and nothing else.
CREATE INDEX call_open ON call (run_no, state) WHERE state IN (0, 1, 2, 5);

CREATE TABLE artifact (
    artifact_no INTEGER PRIMARY KEY,
    run_no      INTEGER NOT NULL,
    digest      BLOB NOT NULL,
    packing     INTEGER NOT NULL,
    data        BLOB NOT NULL
);
CREATE UNIQUE INDEX artifact_of_run ON artifact (run_no, digest);

CREATE TABLE checkpoint (
    checkpoint_no INTEGER PRIMARY KEY,
    run_no        INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    base_version  INTEGER NOT NULL,
    name          TEXT NOT NULL,
    level         INTEGER NOT NULL,
    trigger       TEXT NOT NULL,
    refs          TEXT NOT NULL,
    step          INTEGER NOT NULL,
    phase         INTEGER NOT NULL,
    context       BLOB,
    created_at    INTEGER NOT NULL,
    checksum      BLOB NOT NULL
);
CREATE UNIQUE INDEX checkpoint_of_run ON checkpoint (run_no, version);

CREATE TABLE request (
    request_no  INTEGER PRIMARY KEY,
    request_id  TEXT NOT NULL,
    run_no      INTEGER NOT NULL,
    call_seq    INTEGER NOT NULL,
    call_id     TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    kind        INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    verdict     INTEGER,
    value       BLOB,
    answered_by TEXT,
    note        TEXT,
    answered_at INTEGER
);
CREATE UNIQUE INDEX request_by_id ON request (request_id);
CREATE UNIQUE INDEX request_of_attempt ON request (run_no, call_seq, kind, attempt);

CREATE TABLE event (
    event_no INTEGER PRIMARY KEY,
    run_no   INTEGER NOT NULL,
    kind     INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    call_seq INTEGER,
    epoch    INTEGER NOT NULL,
    detail   TEXT NOT NULL
);
CREATE INDEX event_of_run ON event (run_no);
