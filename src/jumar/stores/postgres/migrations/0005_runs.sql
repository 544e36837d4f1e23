-- Functions about whole runs: create, claim, renew, answer, order, fork.  Each locks the run's row first, reads the clock after
-- that, and looks at everything else in later statements, which see what was committed while the lock was waited for.

CREATE FUNCTION {schema}.create_run(
    _run_id text, _agent text, _agent_version text, _task text, _phase integer, _owner text, _ttl bigint, _digest bytea,
    _packing integer, _data bytea, _at bigint, _workspace text, _created integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _run {schema}.run;
    _now bigint := {schema}.lease_ms();
    _running boolean := _owner IS NOT NULL;
    _run_no bigint;
BEGIN
    INSERT INTO {schema}.run (run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot,
                              lease_until, control, answers, input_digest, created_at, updated_at, workspace)
    VALUES (_run_id, _agent, _agent_version, _task, _running::integer, _phase, 0, 0, 0, _owner, _running::integer,
            {schema}.lease_boot(), CASE WHEN _running THEN _now + _ttl ELSE 0 END, 0, 0, _digest, _at, _at, _workspace)
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_no INTO _run_no;
    IF _run_no IS NULL THEN
        SELECT * INTO _run FROM {schema}.run WHERE run_id = _run_id;
        RETURN {schema}.refused(_now, _run);
    END IF;
    PERFORM {schema}.keep_artifact(_run_no, _digest, _packing, _data);
    INSERT INTO {schema}.event (run_no, kind, at, epoch, detail) VALUES (_run_no, _created, _at, 0, '');
    IF NOT _running THEN
        PERFORM {schema}.tell();
    END IF;
    RETURN json_build_array(_now, _run_no, 0, _running::integer)::text;
END $$;

-- Take a free or expired lease.  The calls are marked in statements of their own, so that one which another process recorded as
-- STARTED while this waited for the row is seen.  Answers: clock, the run, whether it was another's, and how many calls were
-- marked.
CREATE FUNCTION {schema}.claim_run(
    _run_id text, _owner text, _ttl bigint, _statuses integer, _early boolean, _resumes boolean, _epoch integer, _version integer,
    _workspace text, _final integer, _at bigint, _rest jsonb, _blobs bytea[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _old {schema}.run;
    _run {schema}.run;
    _now bigint;
    _boot bytea := {schema}.lease_boot();
    _intent bytea := _blobs[(_rest->>'intent')::integer];
    _newest integer;
    _marked integer;
    _other {schema}.hold;
    _each jsonb;
BEGIN
    SELECT * INTO _old FROM {schema}.run WHERE run_id = _run_id FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF NOT FOUND OR NOT (
        (1 << _old.status) & _statuses <> 0
        AND (_old.owner IS NULL OR _old.boot <> _boot OR _old.lease_until <= _now)
        AND (_old.status <> 2 OR coalesce(_old.wake_at <= _at, false) OR _old.control <> 0 OR _early)
        AND (_epoch IS NULL OR _old.epoch = _epoch)
        AND (_version IS NULL OR _old.version = _version)
        AND (_intent IS NULL OR _old.intent IS NULL)
        AND NOT {schema}.is_elsewhere(_old))
    THEN
        RETURN {schema}.refused(_now, _old);
    END IF;
    IF _old.owner IS NOT NULL THEN
        SELECT coalesce(max(seq), 0) INTO _newest FROM {schema}.call WHERE run_no = _old.run_no;
    END IF;
    UPDATE {schema}.run
    SET owner = _owner, epoch = epoch + 1, boot = _boot, lease_until = _now + _ttl, status = 1, wake_at = NULL, waiting_on = NULL,
        error_class = NULL, error_type = NULL, error_message = NULL, failed_calls = NULL,
        control = CASE WHEN (1 << status) & _final <> 0 OR (_resumes AND control = 1) THEN 0 ELSE control END,
        intent = coalesce(_intent, intent), workspace = coalesce(_workspace, workspace),
        crashes = CASE WHEN _resumes THEN 0 WHEN owner IS NULL THEN crashes WHEN crash_seq < _newest THEN 1
                       ELSE crashes + 1 END,
        crash_seq = coalesce(_newest, crash_seq), updated_at = _at
    WHERE run_no = _old.run_no
    RETURNING * INTO _run;
    IF _workspace IS NOT NULL AND _workspace IS DISTINCT FROM _old.workspace THEN
        PERFORM {schema}.move_holds(_run.run_no, _workspace);
    END IF;
    PERFORM {schema}.add_events(_run.run_no, json_build_array(json_build_array(
        _rest->(CASE WHEN _old.owner IS NULL THEN 'claimed' ELSE 'taken_over' END), _at, NULL, _run.epoch, ''))::jsonb,
        ARRAY[]::integer[], -1);
    _marked := {schema}.mark_calls(_run, (_rest->>'open_decision')::integer, _at, (_rest->>'call_uncertain')::integer);
    IF _rest ? 'workspaces' THEN
        PERFORM {schema}.lock_wanted(ARRAY (SELECT jsonb_array_elements_text(_rest->'workspaces')), ARRAY[]::text[],
                                     ARRAY[]::bigint[], ARRAY[]::integer[]);
    END IF;
    FOR _each IN SELECT jsonb_array_elements(_rest->'holds') LOOP
        _other := {schema}.in_the_way(_run.run_no, 0, _each, _blobs);
        IF _other.workspace IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'JM006', MESSAGE = json_build_array(
                encode(_other.path, 'hex'), (SELECT run_id FROM {schema}.run WHERE run_no = _other.run_no), _other.call_seq,
                {schema}.run_json(_old))::text;
        END IF;
        PERFORM {schema}.hold_path(_run.run_no, 0, _each, _blobs);
    END LOOP;
    FOR _each IN SELECT jsonb_array_elements(_rest->'reopens') LOOP
        IF NOT {schema}.change_call(_run.run_no, _run.version, _each, _blobs, false, 0) THEN
            RAISE EXCEPTION USING ERRCODE = 'JM003', MESSAGE = json_build_array(_each->'seq', _each->'state')::text;
        END IF;
    END LOOP;
    IF _rest ? 'events' THEN  -- of the rollback that begins and of the calls that are reopened
        PERFORM {schema}.add_events(
            _run.run_no,
            (SELECT jsonb_agg(jsonb_build_array(line->0, _at, line->1, _run.epoch, '') ORDER BY place)
             FROM jsonb_array_elements(_rest->'events') WITH ORDINALITY AS given (line, place)),
            ARRAY[]::integer[], -1);
    END IF;
    RETURN json_build_array(_now, {schema}.run_json(_run), _old.owner IS NOT NULL, _marked)::text;
END $$;

-- Mark what may have happened under an older epoch.  A decision that is open (its phase is in _open_decision) has planned its
-- calls, and its reads leave no other row before their result: such a one may have been made, and counts as if it was.
CREATE FUNCTION {schema}.mark_calls(_run {schema}.run, _open_decision integer, _at bigint, _kind integer) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _count integer;
BEGIN
    WITH marked AS (
        UPDATE {schema}.call
        SET state = 5, attempt = attempt + (state = 0)::integer
        WHERE run_no = _run.run_no AND state IN (0, 1, 2, 5)
          AND ((state = 2 AND epoch < _run.epoch) OR (state = 0 AND effect = 0 AND (1 << _run.phase) & _open_decision <> 0))
        RETURNING seq, attempt
    )
    INSERT INTO {schema}.event (run_no, kind, at, call_seq, epoch, detail)
    SELECT _run.run_no, _kind, _at, seq, _run.epoch, 'attempt ' || attempt FROM marked ORDER BY seq;
    GET DIAGNOSTICS _count = ROW_COUNT;
    RETURN _count;
END $$;

-- A run works on other files from now on, and holds the same paths of them.
CREATE FUNCTION {schema}.move_holds(_run_no bigint, _workspace text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO {schema}.hold (workspace, path, run_no, call_seq)
    SELECT _workspace, path, run_no, call_seq FROM {schema}.hold WHERE run_no = _run_no
    ON CONFLICT DO NOTHING;
    DELETE FROM {schema}.hold WHERE run_no = _run_no AND workspace <> _workspace;
END $$;

-- Move one live lease's deadline.
CREATE FUNCTION {schema}.renew_run(_run_no bigint, _owner text, _epoch integer, _ttl bigint) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _run {schema}.run;
    _now bigint;
BEGIN
    SELECT * INTO _run FROM {schema}.run WHERE run_no = _run_no FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF _run.owner = _owner AND _run.epoch = _epoch AND _run.lease_until > _now AND _run.status = 1
       AND _run.boot = {schema}.lease_boot() THEN
        UPDATE {schema}.run SET lease_until = _now + _ttl WHERE run_no = _run_no;
        RETURN json_build_array(_now, _run.version, _run.control, _run.answers)::text;
    END IF;
    RETURN {schema}.refused(_now, _run);
END $$;

-- Answer a request and wake its run, or settle the call of a run that has ended for good.  With an _epoch, the run's must still
-- be that one, and a NOT_HAPPENED (1) is replaced too.  Answers: clock, version, epoch, control, answers.
CREATE FUNCTION {schema}.answer_request(
    _run_no bigint, _request_id text, _verdict integer, _value bytea, _by text, _note text, _at bigint, _epoch integer,
    _final integer, _kind integer, _label text, _rest jsonb, _blobs bytea[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _old {schema}.run;
    _run {schema}.run;
    _now bigint;
    _seq integer;
    _settled boolean := true;
BEGIN
    SELECT * INTO _old FROM {schema}.run WHERE run_no = _run_no FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF FOUND AND (_epoch IS NULL OR _old.epoch = _epoch) AND NOT {schema}.is_elsewhere(_old) THEN
        UPDATE {schema}.request
        SET verdict = _verdict, value = _value, answered_by = _by, note = _note, answered_at = _at
        WHERE request_id = _request_id AND run_no = _run_no AND (verdict IS NULL OR (verdict = 1 AND _epoch IS NOT NULL))
        RETURNING call_seq INTO _seq;
    END IF;
    IF _seq IS NULL THEN
        RETURN {schema}.refused(_now, _old);
    END IF;
    UPDATE {schema}.run
    SET answers = answers + 1, updated_at = _at, wake_at = CASE WHEN status = 2 THEN NULL ELSE wake_at END,
        waiting_on = CASE WHEN status = 2 THEN NULL ELSE waiting_on END, status = CASE WHEN status = 2 THEN 0 ELSE status END
    WHERE run_no = _run_no
    RETURNING * INTO _run;
    IF (1 << _run.status) & _final <> 0 THEN
        -- Nobody will look at the answer, so it is carried out here.  A call that was settled otherwise stays as it is and keeps
        -- its name: giving up the name of a confirmed effect would let it happen again.
        IF _rest ? 'settles' THEN
            _settled := {schema}.change_call(_run_no, _run.version, _rest->'settles', _blobs, false, 0);
            IF _settled THEN
                DELETE FROM {schema}.hold WHERE run_no = _run_no AND call_seq = _seq;
            END IF;
        END IF;
        IF _settled AND _rest ? 'frees' THEN
            PERFORM {schema}.lock_wanted(ARRAY[]::text[], ARRAY[]::text[], ARRAY[_run_no], ARRAY[_seq]);
            PERFORM {schema}.free_names(_run_no, _seq, false);
        END IF;
    END IF;
    INSERT INTO {schema}.event (run_no, kind, at, call_seq, epoch, detail) VALUES (_run_no, _kind, _at, _seq, _run.epoch, _label);
    IF _old.status = 2 THEN
        PERFORM {schema}.tell();
    END IF;
    RETURN json_build_array(_now, _run.version, _run.epoch, _run.control, _run.answers)::text;
END $$;

-- Raise a run's control.  Answers: clock, run number, version, epoch, control, answers.
CREATE FUNCTION {schema}.order_run(_run_id text, _control integer, _at bigint, _by text, _note text, _final integer,
                                   _kind integer, _label text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _old {schema}.run;
    _run {schema}.run;
    _now bigint;
BEGIN
    SELECT * INTO _old FROM {schema}.run WHERE run_id = _run_id FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF NOT FOUND OR (1 << _old.status) & _final <> 0 THEN
        RETURN {schema}.refused(_now, _old);
    END IF;
    UPDATE {schema}.run
    SET ordered_by = CASE WHEN _control >= control THEN _by ELSE ordered_by END,
        order_note = CASE WHEN _control >= control THEN _note ELSE order_note END,
        control = greatest(control, _control), updated_at = _at
    WHERE run_no = _old.run_no
    RETURNING * INTO _run;
    INSERT INTO {schema}.event (run_no, kind, at, epoch, detail) VALUES (_run.run_no, _kind, _at, _run.epoch, _label);
    IF _run.status = 2 THEN
        PERFORM {schema}.tell();
    END IF;
    RETURN json_build_array(_now, _run.run_no, _run.version, _run.epoch, _run.control, _run.answers)::text;
END $$;

-- A new run out of another one, PAUSED, where that one still stands as it did.  Calls are copied as they ended, checkpoints as
-- they stand.  Of the names that reach within a run the fork holds those that its calls hold there, and knows how often the
-- rest were undone.  Answers: clock, run number, version; or clock, boot, the source, and, where its id is taken, the run that
-- has it.
CREATE FUNCTION {schema}.fork_run(
    _run_id text, _source_no bigint, _version integer, _base integer, _phase integer, _step integer, _at bigint, _calls integer[],
    _checkpoints integer[], _workspace text, _kind integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _source {schema}.run;
    _other {schema}.run;
    _now bigint;
    _run_no bigint;
    _count integer;
BEGIN
    SELECT * INTO _source FROM {schema}.run WHERE run_no = _source_no FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF NOT FOUND OR _source.version <> _version THEN
        RETURN {schema}.refused(_now, _source);
    END IF;
    INSERT INTO {schema}.run (run_id, agent, agent_version, task, status, phase, step, version, generation, owner, epoch, boot,
                              lease_until, control, answers, input_digest, created_at, updated_at, line, workspace, origin,
                              forked_from)
    VALUES (_run_id, _source.agent, _source.agent_version, _source.task, 3, _phase, _step, _version + 1, _source.generation + 1,
            NULL, 0, _source.boot, 0, 0, 0, _source.input_digest, _at, _at,
            coalesce(_source.line || ' ', '') || (_version + 1) || ':' || _base, coalesce(_workspace, _source.workspace),
            coalesce(_source.origin, _source.run_id), _source.run_id)
    ON CONFLICT (run_id) DO NOTHING
    RETURNING run_no INTO _run_no;
    IF _run_no IS NULL THEN
        SELECT * INTO _other FROM {schema}.run WHERE run_id = _run_id;
        RETURN json_build_array(_now, encode({schema}.lease_boot(), 'hex'), {schema}.run_json(_source),
                                {schema}.run_json(_other))::text;
    END IF;
    INSERT INTO {schema}.call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                               args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
                               started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
                               before, after, undone)
    SELECT _run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, 0, generation, args_digest, args,
           args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by, started_at, ended_at, started_version,
           ended_version, checksum, over_at, identity, identity_scope, before, after, undone
    FROM {schema}.call WHERE run_no = _source_no AND seq = ANY (_calls) AND state IN (3, 4, 6, 7);
    GET DIAGNOSTICS _count = ROW_COUNT;
    IF _count <> cardinality(_calls) THEN
        RAISE EXCEPTION USING ERRCODE = 'JM007', MESSAGE = json_build_array((
            SELECT seq FROM unnest(_calls) WITH ORDINALITY AS given (seq, place)
            WHERE NOT EXISTS (SELECT 1 FROM {schema}.call AS copy WHERE copy.run_no = _run_no AND copy.seq = given.seq)
            ORDER BY place LIMIT 1))::text;
    END IF;
    INSERT INTO {schema}.identity (scope_run, key, run_no, call_seq, args_digest, undone)
    SELECT _run_no, key, _run_no, call_seq, args_digest, undone FROM {schema}.identity
    WHERE run_no = _source_no AND call_seq = ANY (_calls) AND scope_run = _source_no;
    INSERT INTO {schema}.identity (scope_run, key, run_no, call_seq, args_digest, undone)
    SELECT _run_no, key, 0, 0, args_digest, undone FROM {schema}.identity WHERE scope_run = _source_no AND undone > 0
    ON CONFLICT DO NOTHING;
    INSERT INTO {schema}.checkpoint (run_no, version, base_version, name, level, trigger, refs, step, phase, context, created_at,
                                     checksum, tree, environment, storage)
    SELECT _run_no, version, base_version, name, level, trigger, refs, step, phase, context, created_at, checksum, tree,
           environment, storage
    FROM {schema}.checkpoint WHERE run_no = _source_no AND version = ANY (_checkpoints);
    INSERT INTO {schema}.event (run_no, kind, at, epoch, detail)
    VALUES (_run_no, _kind, _at, 0, 'at version ' || _base);
    RETURN json_build_array(_now, _run_no, _version + 1)::text;
END $$;
