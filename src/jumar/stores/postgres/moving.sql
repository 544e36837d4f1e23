-- The statements that bring a run in from another store, row by row, and those that move one.

-- name: arrive
SELECT {schema}.arrive_run(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: depart
SELECT {schema}.depart_run(%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: lock_wanted
SELECT {schema}.lock_wanted(%s::text[], %s::text[], ARRAY[]::bigint[], ARRAY[]::integer[]);

-- name: run_locked
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_id = %s FOR UPDATE;

-- name: run_adopt
INSERT INTO {schema}.run (run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot,
                          lease_until, control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type,
                          error_message, created_at, updated_at, failed_calls, ordered_by, order_note, line, workspace, intent,
                          origin, forked_from, crashes, crash_seq)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
        %s, %s, %s, %s)
ON CONFLICT (run_id) DO NOTHING
RETURNING run_no;

-- name: run_replace
UPDATE {schema}.run
SET (run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
     answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
     failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq)
  = (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
     %s, %s, %s)
WHERE run_no = %s;

-- name: forget_calls
DELETE FROM {schema}.call WHERE run_no = %s;

-- name: forget_artifacts
DELETE FROM {schema}.artifact WHERE run_no = %s;

-- name: forget_checkpoints
DELETE FROM {schema}.checkpoint WHERE run_no = %s;

-- name: forget_requests
DELETE FROM {schema}.request WHERE run_no = %s;

-- name: forget_events
DELETE FROM {schema}.event WHERE run_no = %s;

-- name: forget_holds
DELETE FROM {schema}.hold WHERE run_no = %s;

-- name: forget_names
DELETE FROM {schema}.identity WHERE run_no = %s;

-- name: forget_names_within
DELETE FROM {schema}.identity WHERE scope_run = %s;

-- name: call_adopt
INSERT INTO {schema}.call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                           args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
                           started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
                           before, after, undone)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
        %s, %s, %s, %s);

-- name: artifact_adopt
INSERT INTO {schema}.artifact (run_no, digest, packing, data) VALUES (%b, %b, %b, %b) ON CONFLICT DO NOTHING;

-- name: checkpoint_adopt
INSERT INTO {schema}.checkpoint (run_no, version, base_version, name, level, trigger, refs, step, phase, context, created_at,
                                 checksum, tree, environment, storage)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: request_adopt
INSERT INTO {schema}.request (run_no, request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note,
                              answered_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: event_adopt
INSERT INTO {schema}.event (run_no, kind, at, call_seq, epoch, detail) VALUES (%s, %s, %s, %s, %s, %s);

-- name: identity_adopt
INSERT INTO {schema}.identity AS held (scope_run, key, run_no, call_seq, args_digest, undone) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (scope_run, key) DO UPDATE
SET run_no = excluded.run_no, call_seq = excluded.call_seq, args_digest = excluded.args_digest,
    undone = greatest(held.undone, excluded.undone)
WHERE held.run_no = 0 AND (excluded.run_no = 0 OR held.undone <= excluded.undone)
RETURNING undone;

-- name: identity_holder
SELECT coalesce(run.run_id, '') FROM {schema}.identity LEFT JOIN {schema}.run ON run.run_no = identity.run_no
WHERE scope_run = %s AND key = %s;

-- name: holds_of
SELECT path, hold.run_no, run_id, call_seq FROM {schema}.hold JOIN {schema}.run ON run.run_no = hold.run_no
WHERE hold.workspace = %s;

-- name: hold_adopt
INSERT INTO {schema}.hold (workspace, path, run_no, call_seq) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING;
