-- The statements of the PostgreSQL store that only read, named as those of the SQLite store, with the same columns in the same
-- order; {schema} is the schema's name, %s and %(name)s are parameters.

-- name: run_by_id
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_id = %s;

-- name: run_by_no
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_no = %s;

-- name: run_newest
SELECT run_id FROM {schema}.run ORDER BY run_id DESC LIMIT %s;

-- name: run_ending
WITH found AS MATERIALIZED (
    SELECT run_id FROM {schema}.run WHERE reverse(run_id) COLLATE "C" >= %(first)s AND reverse(run_id) COLLATE "C" < %(beyond)s
)
SELECT run_id FROM found ORDER BY run_id DESC LIMIT %(limit)s;

-- name: runs
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_id < %(before)s ORDER BY run_id DESC LIMIT %(limit)s;

-- name: runs_of_status
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE status = %(status)s AND run_id < %(before)s ORDER BY run_id DESC LIMIT %(limit)s;

-- name: runs_of_agent
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE agent = %(agent)s AND run_id < %(before)s ORDER BY run_id DESC LIMIT %(limit)s;

-- name: runs_of_status_and_agent
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at, updated_at,
       failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE status = %(status)s AND agent = %(agent)s AND run_id < %(before)s ORDER BY run_id DESC LIMIT %(limit)s;

-- Who looks for runs to take passes over those that somebody is taking at this moment, and is passed over in turn: the row locks
-- last as long as the statement.
-- name: due
WITH queued AS (
    SELECT run_id FROM {schema}.run
    WHERE status = 0 AND %(agents)s::text[] IS NULL
    ORDER BY run_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), queued_of_agents AS (
    SELECT found.run_id FROM unnest(%(agents)s::text[]) AS mine (agent) CROSS JOIN LATERAL (
        SELECT run_id FROM {schema}.run
        WHERE status = 0 AND agent = mine.agent
        ORDER BY run_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ) AS found
), ordered AS (
    SELECT run_id FROM {schema}.run
    WHERE status = 2 AND control <> 0 AND (%(agents)s::text[] IS NULL OR agent = ANY (%(agents)s))
    ORDER BY run_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), waiting AS (
    SELECT wake_at, run_id FROM {schema}.run
    WHERE wake_at IS NOT NULL AND wake_at <= %(wall)s AND status = 2 AND (%(agents)s::text[] IS NULL OR agent = ANY (%(agents)s))
    ORDER BY wake_at, run_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
), expired AS (
    SELECT run_id FROM {schema}.run
    WHERE status = 1 AND (owner IS NULL OR lease_until <= (SELECT {schema}.lease_ms()))
      AND (%(agents)s::text[] IS NULL OR agent = ANY (%(agents)s))
    ORDER BY run_id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
)
SELECT run_id FROM (
    SELECT 0 AS list, 0::bigint AS at, run_id FROM ordered
    UNION ALL SELECT 1, wake_at, run_id FROM waiting
    UNION ALL SELECT 2, 0, run_id FROM expired
    UNION ALL SELECT 3, 0, run_id FROM queued
    UNION ALL SELECT 3, 0, run_id FROM queued_of_agents
) AS found ORDER BY list, at, run_id;

-- name: due_next
SELECT least((SELECT min(wake_at) - %(wall)s FROM {schema}.run WHERE wake_at IS NOT NULL AND status = 2),
             (SELECT min(CASE WHEN owner IS NULL THEN 0 ELSE lease_until - (SELECT {schema}.lease_ms()) END)
              FROM {schema}.run WHERE status = 1));

-- name: clock
SELECT {schema}.lease_ms();

-- name: calls
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM {schema}.call WHERE run_no = %s AND seq >= %s ORDER BY seq;

-- name: call
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM {schema}.call WHERE run_no = %s AND seq = %s;

-- name: last_call
SELECT seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, args_digest, args,
       args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at,
       started_version, ended_version, checksum, over_at, identity, identity_scope, before, after, undone
FROM {schema}.call WHERE run_no = %s AND kind = %s ORDER BY seq DESC LIMIT 1;

-- name: call_shared
SELECT EXISTS (SELECT 1 FROM {schema}.call JOIN {schema}.call AS other ON other.identity = call.identity
               WHERE call.run_no = %(run_no)s AND call.seq = %(seq)s AND call.identity_scope = 1
                 AND other.identity_scope = 1 AND other.run_no <> %(run_no)s AND other.state = 3)
    OR EXISTS (SELECT 1 FROM {schema}.run JOIN {schema}.run AS fork ON fork.forked_from = run.run_id
               JOIN {schema}.call ON call.run_no = fork.run_no AND call.seq = %(seq)s AND call.state = 3 AND call.epoch = 0
               WHERE run.run_no = %(run_no)s);

-- name: artifact
SELECT packing, data FROM {schema}.artifact WHERE run_no = %s AND digest = %s;

-- name: artifact_of_family
WITH RECURSIVE origin (run_no, forked_from) AS (
    SELECT run_no, forked_from FROM {schema}.run WHERE run_no = %s
    UNION SELECT run.run_no, run.forked_from FROM origin JOIN {schema}.run ON run.run_id = origin.forked_from
)
SELECT packing, data FROM {schema}.artifact WHERE digest = %s AND run_no IN (SELECT run_no FROM origin);

-- name: checkpoints
SELECT version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree, environment, storage
FROM {schema}.checkpoint WHERE run_no = %s ORDER BY version;

-- name: last_snapshot
SELECT version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree, environment, storage
FROM {schema}.checkpoint WHERE run_no = %s AND tree IS NOT NULL ORDER BY version DESC LIMIT %s;

-- name: requests
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM {schema}.request WHERE run_no = %s ORDER BY request_no;

-- name: requests_of_call
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM {schema}.request WHERE run_no = %s AND call_seq = %s ORDER BY request_no;

-- name: requests_unanswered
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM {schema}.request WHERE run_no = %s AND verdict IS NULL ORDER BY request_no;

-- name: requests_unanswered_of_call
SELECT request_id, call_seq, call_id, attempt, kind, created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM {schema}.request WHERE run_no = %s AND call_seq = %s AND verdict IS NULL ORDER BY request_no;

-- name: requests_open
SELECT run_id, request_id, call_seq, call_id, attempt, kind, request.created_at, verdict, value, answered_by, note, answered_at,
       expires_at
FROM {schema}.request JOIN {schema}.run ON run.run_no = request.run_no
WHERE verdict IS NULL AND ((1 << status) & %(final)s = 0 OR kind = 0)
ORDER BY request.created_at, request_id LIMIT %(limit)s;

-- name: events
SELECT kind, at, call_seq, epoch, detail FROM {schema}.event WHERE run_no = %s ORDER BY event_no;

-- name: identity_by_key
SELECT identity.run_no, coalesce(run.run_id, ''), call_seq, args_digest, undone
FROM {schema}.identity LEFT JOIN {schema}.run ON run.run_no = identity.run_no
WHERE scope_run = %s AND key = %s;

-- name: holds_of_workspace
SELECT hold.workspace, path, hold.run_no, run_id, call_seq
FROM {schema}.hold JOIN {schema}.run ON run.run_no = hold.run_no WHERE hold.workspace = %s;

-- name: holds_overlapping
SELECT hold.workspace, path, hold.run_no, run_id, call_seq
FROM (SELECT * FROM {schema}.hold WHERE workspace = %(workspace)s AND path >= %(below)s AND path < %(beyond)s
      UNION ALL SELECT * FROM {schema}.hold WHERE workspace = %(workspace)s AND path = ANY (%(above)s)) AS hold
JOIN {schema}.run ON run.run_no = hold.run_no;

-- name: every_run
SELECT run_no, run_id FROM {schema}.run WHERE run_no > %s ORDER BY run_no LIMIT 500;

-- name: every_artifact
SELECT run_no, digest, run_no, digest, packing, data FROM {schema}.artifact
WHERE (run_no, digest) > (%s, %s) ORDER BY run_no, digest LIMIT 200;

-- name: every_identity
SELECT scope_run, identity.key, scope_run, identity.key, identity.run_no, call_seq, run_id, call_id, call.identity, identity_scope
FROM {schema}.identity
LEFT JOIN {schema}.run ON run.run_no = identity.run_no
LEFT JOIN {schema}.call ON call.run_no = identity.run_no AND call.seq = call_seq
WHERE (scope_run, identity.key) > (%s, %s) ORDER BY scope_run, identity.key LIMIT 500;

-- name: every_hold
SELECT hold.workspace, path, hold.run_no, call_seq, run_id, intent, call_id, state
FROM {schema}.hold
LEFT JOIN {schema}.run ON run.run_no = hold.run_no
LEFT JOIN {schema}.call ON call.run_no = hold.run_no AND call.seq = call_seq
WHERE (hold.workspace, path, hold.run_no, call_seq) > (%s, %s, %s, %s)
ORDER BY hold.workspace, path, hold.run_no, call_seq LIMIT 500;

-- name: artifacts_of_run
SELECT digest, packing, data FROM {schema}.artifact WHERE run_no = %s ORDER BY digest;

-- name: identities_of_run
SELECT CASE scope_run WHEN 0 THEN 1 ELSE 0 END AS scope, key, run_no, CASE run_no WHEN 0 THEN '' ELSE %(run_id)s::text END,
       call_seq, args_digest, undone
FROM {schema}.identity WHERE run_no = %(run_no)s
UNION
SELECT 0, key, 0, '', call_seq, args_digest, undone FROM {schema}.identity WHERE scope_run = %(run_no)s AND run_no = 0
UNION
SELECT 1, identity.key, 0, '', identity.call_seq, identity.args_digest, identity.undone
FROM {schema}.call JOIN {schema}.identity ON identity.scope_run = 0 AND identity.key = call.identity AND identity.run_no = 0
WHERE call.run_no = %(run_no)s AND identity_scope = 1
ORDER BY scope, key;

-- name: holds_of_run
SELECT workspace, path, run_no, %(run_id)s::text, call_seq
FROM {schema}.hold WHERE run_no = %(run_no)s ORDER BY workspace, path, call_seq;
