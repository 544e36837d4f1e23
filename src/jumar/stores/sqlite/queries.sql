-- The statements of the SQLite store.  A line `-- name: x` begins each; :name marks a parameter, ? a place in a row.
-- Where `state IN (0, 1, 2, 5)` stands beside `state = 2`, it repeats the condition of the index call_open: without the very
-- words, SQLite does not use that index and looks at every call of the run.  A + before a column keeps SQLite from choosing that
-- column's index, where another has the rows in order.  INDEXED BY names the one of few rows, where SQLite prefers one that has
-- every run of that status.

-- name: run_create
INSERT INTO run (run_id, reversed_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot,
                 lease_until, control, answers, input_digest, created_at, updated_at, workspace)
VALUES (:run_id, :reversed_id, :agent, :agent_version, :task, :status, :phase, 0, 0, 0, :owner, :epoch, :boot, :lease_until, 0, 0,
        :input_digest, :at, :at, :workspace)
ON CONFLICT (run_id) DO NOTHING
RETURNING run_no;

-- name: run_claim
UPDATE run
SET owner = :owner, epoch = epoch + 1, boot = :boot, lease_until = :lease_until, status = 1, wake_at = NULL,
    waiting_on = NULL, error_class = NULL, error_type = NULL, error_message = NULL, failed_calls = NULL,
    control = CASE WHEN (1 << status) & :final <> 0 OR (:resumes AND control = 1) THEN 0 ELSE control END,
    intent = coalesce(:intent, intent), workspace = coalesce(:workspace, workspace),
    crashes = CASE WHEN :resumes THEN 0 WHEN owner IS NULL THEN crashes
                   WHEN crash_seq < (SELECT coalesce(max(seq), 0) FROM call WHERE call.run_no = run.run_no) THEN 1
                   ELSE crashes + 1 END,
    crash_seq = CASE WHEN owner IS NULL THEN crash_seq
                     ELSE (SELECT coalesce(max(seq), 0) FROM call WHERE call.run_no = run.run_no) END,
    updated_at = :at
WHERE run_id = :run_id
  AND (1 << status) & :statuses <> 0
  AND (owner IS NULL OR boot <> :boot OR lease_until <= :now)
  AND (status <> 2 OR wake_at <= :at OR control <> 0 OR :early)
  AND (:epoch IS NULL OR epoch = :epoch)
  AND (:version IS NULL OR version = :version)
  AND (:intent IS NULL OR intent IS NULL)
  AND (status <> 6 OR coalesce(error_type, '') NOT IN ('arriving here', 'moved away'))
RETURNING run_no;

-- name: calls_uncertain
UPDATE call
SET state = 5
WHERE run_no = :run_no AND state = 2 AND state IN (0, 1, 2, 5) AND epoch < :epoch
RETURNING seq, call_id, attempt;

-- name: reads_uncertain
UPDATE call
SET state = 5, attempt = attempt + 1
WHERE run_no = :run_no AND state = 0 AND state IN (0, 1, 2, 5) AND effect = 0
RETURNING seq, call_id, attempt;

-- name: run_advance_quietly
UPDATE run
SET version = version + 1, phase = ?, step = ?, lease_until = ?, updated_at = ?
WHERE run_no = ? AND owner = ? AND epoch = ? AND version = ? AND boot = ? AND lease_until > ? AND status = 1
  AND (1 << phase) & ? <> 0 AND control = ? AND answers = ?;

-- name: run_advance
UPDATE run
SET version = version + 1, phase = ?, step = ?, lease_until = ?, updated_at = ?
WHERE run_no = ? AND owner = ? AND epoch = ? AND version = ? AND boot = ? AND lease_until > ? AND status = 1
  AND (1 << phase) & ? <> 0
RETURNING control, answers;

-- name: run_leave
UPDATE run
SET version = version + 1, phase = :phase, step = :step, status = :status, owner = NULL, lease_until = 0,
    wake_at = :wake_at, waiting_on = :waiting_on, output_digest = :output_digest, error_class = :error_class,
    error_type = :error_type, error_message = :error_message, failed_calls = :failed_calls, updated_at = :at
WHERE run_no = :run_no AND owner = :owner AND epoch = :epoch AND version = :version AND boot = :boot
  AND lease_until > :now AND status = 1
  AND (1 << phase) & :phase_before <> 0 AND (1 << status) & :status_before <> 0
  AND control = :control AND answers = :answers AND (intent IS NULL OR NOT :is_final)
RETURNING control, answers;

-- name: run_rebase
UPDATE run
SET version = version + 1, phase = :phase, step = :step, generation = generation + (:base IS NOT NULL),
    line = CASE WHEN :base IS NULL THEN line ELSE coalesce(line || ' ', '') || (version + 1) || ':' || :base END,
    intent = NULL, status = :status, owner = CASE WHEN :status = 1 THEN owner END,
    lease_until = CASE WHEN :status = 1 THEN :lease_until ELSE 0 END,
    wake_at = :wake_at, waiting_on = :waiting_on, output_digest = :output_digest, error_class = :error_class,
    error_type = :error_type, error_message = :error_message, failed_calls = :failed_calls, updated_at = :at
WHERE run_no = :run_no AND owner = :owner AND epoch = :epoch AND version = :version AND boot = :boot
  AND lease_until > :now AND status = 1 AND intent IS NOT NULL
  AND (:status = 1 OR (control = :control AND answers = :answers))
RETURNING control, answers;

-- name: run_intent
UPDATE run SET intent = ? WHERE run_no = ? AND intent IS NOT NULL;

-- name: run_fork
INSERT INTO run (run_id, reversed_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot,
                 lease_until, control, answers, input_digest, created_at, updated_at, line, workspace, origin, forked_from)
SELECT :run_id, :reversed_id, agent, agent_version, task, 3, :phase, :step, version + 1, generation + 1, NULL, 0, boot,
       0, 0, 0, input_digest, :at, :at, coalesce(line || ' ', '') || (version + 1) || ':' || :base,
       coalesce(:workspace, workspace), coalesce(origin, run_id), run_id
FROM run WHERE run_no = :source_no AND version = :version
ON CONFLICT (run_id) DO NOTHING
RETURNING run_no, version;

-- name: fork_call
INSERT INTO call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                  args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
                  started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
                  before, after, undone)
SELECT ?, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, 0, generation,
       args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
       started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
       before, after, undone
FROM call WHERE run_no = ? AND seq = ? AND state IN (3, 4, 6, 7);

-- name: fork_name
INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest, undone)
SELECT :run_no, key, :run_no, call_seq, args_digest, undone FROM identity
WHERE run_no = :source_no AND call_seq = :seq AND scope_run = :source_no;

-- name: fork_names_undone
INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest, undone)
SELECT :run_no, key, 0, 0, args_digest, undone FROM identity WHERE scope_run = :source_no AND undone > 0
ON CONFLICT (scope_run, key) DO NOTHING;

-- name: fork_checkpoint
INSERT INTO checkpoint (run_no, version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum,
                        tree, environment, storage)
SELECT ?, version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum,
       tree, environment, storage
FROM checkpoint WHERE run_no = ? AND version = ?;

-- name: request_withdraw
UPDATE request SET verdict = 5, answered_at = :at WHERE request_id = :request_id AND run_no = :run_no AND verdict IS NULL;

-- name: hold_insert
INSERT INTO hold (workspace, path, run_no, call_seq) VALUES (?, ?, ?, ?)
ON CONFLICT (workspace, path, run_no, call_seq) DO NOTHING;

-- name: hold_drop
DELETE FROM hold WHERE run_no = ? AND call_seq = ?;

-- name: holds_moved
UPDATE OR REPLACE hold SET workspace = ? WHERE run_no = ?;

-- name: holds_of_workspace
SELECT hold.workspace, path, hold.run_no, run_id, call_seq
FROM hold JOIN run ON run.run_no = hold.run_no WHERE hold.workspace = ?;

-- name: holds_below
SELECT hold.workspace, path, hold.run_no, run_id, call_seq
FROM hold JOIN run ON run.run_no = hold.run_no
WHERE hold.workspace = ? AND path >= ? AND path < ?;

-- name: holds_at
SELECT hold.workspace, path, hold.run_no, run_id, call_seq
FROM hold JOIN run ON run.run_no = hold.run_no WHERE hold.workspace = ? AND path = ?;

-- name: run_open_calls
SELECT call_id, state FROM call WHERE run_no = ? AND state IN (2, 5) AND state IN (0, 1, 2, 5);

-- name: run_renew
UPDATE run
SET lease_until = :lease_until
WHERE run_no = :run_no AND owner = :owner AND epoch = :epoch AND boot = :boot AND lease_until > :now AND status = 1
RETURNING version, control, answers;

-- name: call_insert
INSERT INTO call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                  args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
                  started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
                  before, after, undone)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: call_insert_plain
INSERT INTO call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                  args_digest, args, result, started_at, ended_at, started_version, ended_version, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: call_change
UPDATE call
SET state = :state, attempt = :attempt, epoch = :epoch,
    result = coalesce(:result, result), result_artifact = coalesce(:result_artifact, result_artifact),
    failure = :failure, over_at = :over_at, usage = coalesce(:usage, usage), boot = coalesce(:boot, boot),
    dispatch_by = coalesce(:dispatch_by, dispatch_by), started_at = coalesce(:started_at, started_at),
    ended_at = :ended_at, started_version = coalesce(:started_version, started_version),
    ended_version = coalesce(:ended_version, ended_version), checksum = coalesce(:checksum, checksum),
    identity = coalesce(:identity, identity), identity_scope = coalesce(:identity_scope, identity_scope),
    before = coalesce(:before, before), after = coalesce(:after, after), undone = coalesce(:undone, undone)
WHERE run_no = :run_no AND seq = :seq AND (1 << state) & :state_before <> 0;

-- name: artifact_insert
INSERT INTO artifact (run_no, digest, packing, data) VALUES (?, ?, ?, ?) ON CONFLICT (run_no, digest) DO NOTHING;

-- name: checkpoint_insert
INSERT INTO checkpoint (run_no, version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum,
                        tree, environment, storage)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_no, version) DO NOTHING;

-- name: request_insert
INSERT INTO request (run_no, request_id, call_seq, call_id, attempt, kind, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_no, call_seq, kind, attempt) DO NOTHING;

-- name: request_answer
UPDATE request
SET verdict = :verdict, value = :value, answered_by = :by, note = :note, answered_at = :at
WHERE request_id = :request_id AND run_no = :run_no
  AND (verdict IS NULL OR (verdict = 1 AND :epoch IS NOT NULL))
  AND (:epoch IS NULL OR :epoch = (SELECT epoch FROM run WHERE run_no = :run_no))
  AND NOT EXISTS (SELECT 1 FROM run WHERE run_no = :run_no AND status = 6 AND error_type IN ('arriving here', 'moved away'))
RETURNING call_seq;

-- name: run_answered
UPDATE run
SET answers = answers + 1, updated_at = :at,
    wake_at = CASE WHEN status = 2 THEN NULL ELSE wake_at END,
    waiting_on = CASE WHEN status = 2 THEN NULL ELSE waiting_on END,
    status = CASE WHEN status = 2 THEN 0 ELSE status END
WHERE run_no = :run_no
RETURNING version, epoch, control, answers, status;

-- name: run_order
UPDATE run
SET ordered_by = CASE WHEN :control >= control THEN :by ELSE ordered_by END,
    order_note = CASE WHEN :control >= control THEN :note ELSE order_note END,
    control = max(control, :control), updated_at = :at
WHERE run_id = :run_id AND (1 << status) & :final = 0
RETURNING run_no, version, epoch, control, answers;

-- name: identity_take
INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest, undone)
SELECT :scope_run, :key, :run_no, :call_seq, :args_digest, :undone
WHERE :undone = 0 OR EXISTS (SELECT 1 FROM identity WHERE scope_run = :scope_run AND key = :key)
ON CONFLICT (scope_run, key) DO UPDATE
SET run_no = excluded.run_no, call_seq = excluded.call_seq, args_digest = excluded.args_digest
WHERE undone = excluded.undone
  AND ((run_no = excluded.run_no AND call_seq = excluded.call_seq)
       OR (run_no = :instead_run AND call_seq = :instead_seq)
       OR run_no = 0)
RETURNING identity_no;

-- name: identity_free
DELETE FROM identity WHERE run_no = ? AND call_seq = ? AND undone = 0;

-- name: identity_left
UPDATE identity SET run_no = 0, call_seq = 0, undone = undone + :undone WHERE run_no = :run_no AND call_seq = :call_seq;

-- name: identity_by_key
SELECT identity.run_no, coalesce(run.run_id, ''), call_seq, args_digest, undone
FROM identity LEFT JOIN run ON run.run_no = identity.run_no
WHERE scope_run = ? AND key = ?;

-- name: event_insert
INSERT INTO event (run_no, kind, at, call_seq, epoch, detail) VALUES (?, ?, ?, ?, ?, ?);

-- name: run_by_id
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE run_id = ?;

-- name: run_by_no
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE run_no = ?;

-- name: run_newest
SELECT run_id FROM run ORDER BY run_id DESC LIMIT ?;

-- name: run_ending
SELECT run_id FROM run WHERE reversed_id >= :first AND reversed_id < :beyond ORDER BY run_id DESC LIMIT :limit;

-- name: runs
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE run_id < :before ORDER BY run_id DESC LIMIT :limit;

-- name: runs_of_status
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE status = :status AND run_id < :before ORDER BY run_id DESC LIMIT :limit;

-- name: runs_of_agent
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE agent = :agent AND run_id < :before ORDER BY run_id DESC LIMIT :limit;

-- name: runs_of_status_and_agent
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until, control,
       answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM run WHERE status = :status AND agent = :agent AND run_id < :before ORDER BY run_id DESC LIMIT :limit;

-- name: due_ordered
SELECT run_id FROM run INDEXED BY run_ready
WHERE (status = 0 OR (status = 2 AND control <> 0)) AND status = 2 AND control <> 0 AND (:agents IS NULL OR agent IN (SELECT value FROM json_each(:agents)))
ORDER BY run_id LIMIT :limit;

-- name: due_waiting
SELECT run_id FROM run
WHERE wake_at IS NOT NULL AND wake_at <= :wall AND +status = 2
  AND (:agents IS NULL OR +agent IN (SELECT value FROM json_each(:agents)))
ORDER BY wake_at, run_id LIMIT :limit;

-- name: due_expired
SELECT run_id FROM run
WHERE status = 1 AND (owner IS NULL OR boot <> :boot OR lease_until <= :now)
  AND (:agents IS NULL OR +agent IN (SELECT value FROM json_each(:agents)))
ORDER BY run_id LIMIT :limit;

-- name: due_queued
SELECT run_id FROM run WHERE status = 0 ORDER BY run_id LIMIT :limit;

-- name: due_queued_of_agent
SELECT run_id FROM run INDEXED BY run_ready
WHERE (status = 0 OR (status = 2 AND control <> 0)) AND status = 0 AND agent = :agent ORDER BY run_id LIMIT :limit;

-- name: next_wake
SELECT wake_at FROM run WHERE wake_at IS NOT NULL AND +status = 2 ORDER BY wake_at LIMIT 1;

-- name: next_lapse
SELECT min(CASE WHEN owner IS NULL OR boot <> :boot THEN 0 ELSE lease_until END) FROM run WHERE status = 1;

-- name: data_version
PRAGMA data_version;

-- name: calls
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM call WHERE run_no = ? AND seq >= ? ORDER BY seq;

-- name: call
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM call WHERE run_no = ? AND seq = ?;

-- name: last_call
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM call WHERE run_no = ? AND kind = ? ORDER BY seq DESC LIMIT 1;

-- name: call_shared
SELECT EXISTS (SELECT 1 FROM call JOIN call AS other ON other.identity = call.identity
               WHERE call.run_no = :run_no AND call.seq = :seq AND call.identity_scope = 1
                 AND other.identity_scope = 1 AND other.run_no <> :run_no AND other.state = 3)
    OR EXISTS (SELECT 1 FROM run JOIN run AS fork ON fork.forked_from = run.run_id
               JOIN call ON call.run_no = fork.run_no AND call.seq = :seq AND call.state = 3 AND call.epoch = 0
               WHERE run.run_no = :run_no);

-- name: call_state
SELECT state FROM call WHERE run_no = ? AND seq = ?;

-- name: artifact
SELECT packing, data FROM artifact WHERE run_no = ? AND digest = ?;

-- name: artifact_of_family
WITH RECURSIVE origin (run_no, forked_from) AS (
    SELECT run_no, forked_from FROM run WHERE run_no = ?1
    UNION SELECT run.run_no, run.forked_from FROM origin JOIN run ON run.run_id = origin.forked_from
)
SELECT packing, data FROM artifact WHERE digest = ?2 AND run_no IN (SELECT run_no FROM origin);

-- name: checkpoints
SELECT version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree, environment, storage
FROM checkpoint WHERE run_no = ? ORDER BY version;

-- name: checkpoint
SELECT version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree, environment, storage
FROM checkpoint WHERE run_no = ? AND version = ?;

-- name: last_snapshot
SELECT version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree, environment, storage
FROM checkpoint WHERE run_no = ? AND tree IS NOT NULL ORDER BY version DESC;

-- name: requests
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM request WHERE run_no = ? ORDER BY request_no;

-- name: requests_of_call
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM request WHERE run_no = ? AND call_seq = ? ORDER BY request_no;

-- name: requests_unanswered
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM request WHERE run_no = ? AND verdict IS NULL ORDER BY request_no;

-- name: requests_unanswered_of_call
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM request WHERE run_no = ? AND call_seq = ? AND +verdict IS NULL ORDER BY request_no;

-- name: requests_open
SELECT run_id, request_id, call_seq, call_id, attempt, kind, request.created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM request CROSS JOIN run ON run.run_no = request.run_no
WHERE verdict IS NULL AND ((1 << status) & :final = 0 OR kind = 0)
ORDER BY request.created_at, request_id LIMIT :limit;

-- name: request_found
SELECT verdict, value, answered_by, answered_at FROM request WHERE request_id = ? AND run_no = ?;

-- name: events
SELECT kind, at, call_seq, epoch, detail FROM event WHERE run_no = ? ORDER BY event_no;

-- name: every_run
SELECT run_no, run_id FROM run WHERE run_no > ? ORDER BY run_no LIMIT 500;

-- name: every_artifact
SELECT artifact_no, run_no, digest, packing, data FROM artifact WHERE artifact_no > ? ORDER BY artifact_no LIMIT 200;

-- name: every_identity
SELECT identity_no, scope_run, identity.key, identity.run_no, call_seq, run_id, call_id, call.identity, identity_scope
FROM identity
LEFT JOIN run ON run.run_no = identity.run_no
LEFT JOIN call ON call.run_no = identity.run_no AND call.seq = call_seq
WHERE identity_no > ? ORDER BY identity_no LIMIT 500;

-- name: every_hold
SELECT hold.workspace, path, hold.run_no, call_seq, run_id, intent, call_id, state
FROM hold
LEFT JOIN run ON run.run_no = hold.run_no
LEFT JOIN call ON call.run_no = hold.run_no AND call.seq = call_seq
WHERE (hold.workspace, path, hold.run_no, call_seq) > (?, ?, ?, ?)
ORDER BY hold.workspace, path, hold.run_no, call_seq LIMIT 500;
