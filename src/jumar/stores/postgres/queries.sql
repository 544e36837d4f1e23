-- The statements that write, and those that read back what was written.  A line `-- name: x` begins each.

-- name: advance_plain
SELECT {schema}.advance_plain(%s, %s, %s, %s, %s);

-- name: advance_plain_asked
SELECT {schema}.advance_plain($1, $2, $3, $4, $5);

-- name: advance_many
SELECT {schema}.advance_many(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: advance
SELECT {schema}.advance(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: advance_alone
SELECT {schema}.advance(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: create
SELECT {schema}.create_run(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: claim
SELECT {schema}.claim_run(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: renew
SELECT {schema}.renew_run(%s, %s, %s, %s);

-- name: answer
SELECT {schema}.answer_request(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: order
SELECT {schema}.order_run(%s, %s, %s, %s, %s, %s, %s, %s);

-- name: fork
SELECT {schema}.fork_run(%s, %s, %s, %s, %s, %s, %s, %s::integer[], %s::integer[], %s, %s);

-- name: lock_all
SELECT {schema}.lock_all(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::integer[]);

-- name: lock_run_by_id
SELECT 1 FROM {schema}.run WHERE run_id = %s FOR UPDATE;

-- name: lock_run_by_no
SELECT 1 FROM {schema}.run WHERE run_no = %s FOR UPDATE;

-- name: landed_by_id
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at,
       updated_at, failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_id = %s;

-- name: landed_by_no
SELECT run_no, run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot, lease_until,
       control, answers, wake_at, waiting_on, input_digest, output_digest, error_class, error_type, error_message, created_at,
       updated_at, failed_calls, ordered_by, order_note, line, workspace, intent, origin, forked_from, crashes, crash_seq
FROM {schema}.run WHERE run_no = %s;

-- name: call_state
SELECT state FROM {schema}.call WHERE run_no = %s AND seq = %s;

-- name: request_found
SELECT verdict, value, answered_by, answered_at FROM {schema}.request WHERE request_id = %s AND run_no = %s;
