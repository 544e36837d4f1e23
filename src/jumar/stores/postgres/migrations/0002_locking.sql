-- Functions that the others stand on: the lease clock, rows as text, and locks.
--
-- A variable's name begins with _, so that none is a column's.  Bytes come in an array beside a document, which names them by
-- their places in it.  A guard that fails after something was written raises an SQLSTATE of class JM, whose message is what the
-- refusal is made of; it undoes the transaction.

-- The lease clock: milliseconds of the server's own clock, and which boot they count from.  Volatile, so that it is read anew
-- wherever it stands; never now(), which is when the transaction began.
CREATE FUNCTION {schema}.lease_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (date_part('epoch', clock_timestamp()) * 1000)::bigint $$;

CREATE FUNCTION {schema}.lease_boot() RETURNS bytea LANGUAGE sql VOLATILE AS
$$ SELECT '\x736572766572'::bytea $$;

-- A run's row as a JSON array, the columns in the order in which the queries select them, bytes in hexadecimal digits.
CREATE FUNCTION {schema}.run_json(_run {schema}.run) RETURNS json LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN json_build_array(
        _run.run_no, _run.run_id, _run.agent, _run.agent_version, _run.task, _run.status, _run.phase, _run.step, _run.version,
        _run.generation, _run.owner, _run.epoch, encode(_run.boot, 'hex'), _run.lease_until, _run.control, _run.answers,
        _run.wake_at, _run.waiting_on, encode(_run.input_digest, 'hex'), encode(_run.output_digest, 'hex'), _run.error_class,
        _run.error_type, _run.error_message, _run.created_at, _run.updated_at, _run.failed_calls, _run.ordered_by,
        _run.order_note, _run.line, _run.workspace, encode(_run.intent, 'hex'), _run.origin, _run.forked_from, _run.crashes,
        _run.crash_seq);
END $$;

-- The answer of a refused change: the lease clock, its boot, and the run as it stands, where there is one.
CREATE FUNCTION {schema}.refused(_now bigint, _run {schema}.run) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN json_build_array(_now, encode({schema}.lease_boot(), 'hex'),
                            CASE WHEN _run.run_no IS NOT NULL THEN {schema}.run_json(_run) END)::text;
END $$;

-- Whoever waits for runs to become due hears of it once the transaction has committed.  Commits with a notice wait for each
-- other, all over the database; so it is given only where a run really became due, never by an advance that goes on.
CREATE FUNCTION {schema}.tell() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_notify('jumar_{schema}', '');
END $$;

-- Locks that last as long as the transaction, on workspaces and on names of actions that reach over the whole store: those that
-- are asked for, and those of names that the calls (run_no[n], seq[n]) hold.  All are taken in one order.  The statement that
-- looks comes after, so that it sees what the one before has committed; with an older snapshot it would not.
CREATE FUNCTION {schema}.lock_wanted(_workspaces text[], _keys text[], _run_nos bigint[], _seqs integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _number bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'jumar needs READ COMMITTED transactions' USING ERRCODE = 'invalid_transaction_state';
    END IF;
    FOR _number IN
        SELECT DISTINCT hashtextextended('{schema}' || wanted, 0) AS number FROM (
            SELECT '/workspace/' || unnest(_workspaces) AS wanted
            UNION ALL SELECT '/name/' || unnest(_keys)
            UNION ALL SELECT '/name/' || key
            FROM unnest(_run_nos, _seqs) AS freed (run_no, seq)
            JOIN {schema}.identity AS held ON held.run_no = freed.run_no AND held.call_seq = freed.seq AND held.scope_run = 0
        ) AS each
        ORDER BY number
    LOOP
        PERFORM pg_advisory_xact_lock(_number);
    END LOOP;
END $$;

-- For a transaction of several changes: everything that any of them locks, runs first, by their numbers.
CREATE FUNCTION {schema}.lock_all(_run_nos bigint[], _run_ids text[], _workspaces text[], _keys text[], _freed_runs bigint[],
                                  _freed_seqs integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM 1 FROM {schema}.run
    WHERE run_no = ANY (_run_nos || ARRAY (SELECT run_no FROM {schema}.run WHERE run_id = ANY (_run_ids)))
    ORDER BY run_no FOR NO KEY UPDATE;
    IF cardinality(_workspaces) + cardinality(_keys) + cardinality(_freed_runs) > 0 THEN
        PERFORM {schema}.lock_wanted(_workspaces, _keys, _freed_runs, _freed_seqs);
    END IF;
END $$;
