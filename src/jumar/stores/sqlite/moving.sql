-- The statements that read a run as a whole, bring one in from another store, and move one; as in queries.sql.

-- name: artifacts_of_run
SELECT digest, packing, data FROM artifact WHERE run_no = ? ORDER BY digest;

-- name: identities_of_run
SELECT CASE scope_run WHEN 0 THEN 1 ELSE 0 END AS scope, key, run_no, CASE run_no WHEN 0 THEN '' ELSE :run_id END, call_seq,
       args_digest, undone
FROM identity WHERE run_no = :run_no
UNION
SELECT 0, key, 0, '', call_seq, args_digest, undone FROM identity WHERE scope_run = :run_no AND run_no = 0
UNION
SELECT 1, identity.key, 0, '', identity.call_seq, identity.args_digest, identity.undone
FROM call JOIN identity ON identity.scope_run = 0 AND identity.key = call.identity AND identity.run_no = 0
WHERE call.run_no = :run_no AND identity_scope = 1
ORDER BY scope, key;

-- name: holds_of_run
SELECT workspace, path, run_no, :run_id, call_seq FROM hold WHERE run_no = :run_no ORDER BY workspace, path, call_seq;

-- name: run_adopt
INSERT INTO run (run_no, reversed_id, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch,
                 boot, lease_until, control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type,
                 error_message, created_at, updated_at, failed_calls, ordered_by, order_note, line, workspace, intent, origin,
                 forked_from, crashes, crash_seq)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING run_no;

-- name: forget_run
DELETE FROM run WHERE run_no = :run_no;

-- name: forget_calls
DELETE FROM call WHERE run_no = :run_no;

-- name: forget_artifacts
DELETE FROM artifact WHERE run_no = :run_no;

-- name: forget_checkpoints
DELETE FROM checkpoint WHERE run_no = :run_no;

-- name: forget_requests
DELETE FROM request WHERE run_no = :run_no;

-- name: forget_events
DELETE FROM event WHERE run_no = :run_no;

-- name: forget_names
DELETE FROM identity WHERE run_no = :run_no OR scope_run = :run_no;

-- name: forget_holds
DELETE FROM hold WHERE run_no = :run_no;

-- name: request_adopt
INSERT INTO request (run_no, request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note,
                     answered_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: identity_adopt
INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest, undone) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope_run, key) DO UPDATE
SET run_no = excluded.run_no, call_seq = excluded.call_seq, args_digest = excluded.args_digest,
    undone = max(undone, excluded.undone)
WHERE run_no = 0 AND (excluded.run_no = 0 OR undone <= excluded.undone)
RETURNING identity_no;

-- name: run_arrive
UPDATE run
SET status = :status, epoch = :epoch_after, wake_at = :wake_at, waiting_on = :waiting_on, error_class = :error_class,
    error_type = :error_type, error_message = :error_message
WHERE run_id = :run_id AND status = 6 AND error_type = 'arriving here'
  AND epoch = :epoch AND version = :version AND answers = :answers AND control = :control
RETURNING run_no;

-- name: run_depart
UPDATE run
SET status = 6, owner = NULL, lease_until = 0, wake_at = NULL, waiting_on = NULL, error_class = NULL, error_type = 'moved away',
    error_message = :message, updated_at = :at
WHERE run_id = :run_id AND (1 << status) & :final = 0 AND (owner IS NULL OR boot <> :boot OR lease_until <= :now)
  AND epoch = :epoch AND version = :version AND answers = :answers AND control = :control
RETURNING run_no;

-- name: requests_withdraw
UPDATE request SET verdict = 5, answered_at = :at WHERE run_no = :run_no AND verdict IS NULL;
