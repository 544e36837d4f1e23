-- An advance: one call of one function, whatever it writes.
--
-- The run's row is locked before the clock is read: a lease that runs out while this waits for the lock has run out.  What a
-- guard compares is the row as it is under that lock.  Answers a JSON array: clock, control, answers and the numbers of the calls
-- whose names or paths others hold; or, where a guard refused, what refused() says.

-- What most advances are: the run goes on, and a call is recorded that ended with a result in its row.  Its values come in two
-- arrays: with a parameter for each, the database would take longer to learn what it is asked than to do it.  They are
--   _n  1 run_no, 2 epoch, 3 version, 4 phase, 5 step, 6 ttl, 7 at, 8 phase_before, 9 seq, 10 ordinal, 11 kind, 12 effect,
--       13 state, 14 attempt, 15 the call's epoch, 16 generation, 17 started_at, 18 ended_at, 19 checksum
--   _t  1 owner, 2 call_id, 3 branch, 4 the call's step, 5 tool
-- The UPDATE is what locks the row here.  It compared the lease with the clock before it waited for the lock, if it did, and
-- not again where whoever had it left the row as it was.  So what lease_until was is kept, and compared again afterwards; where it
-- ran out meanwhile all is undone, and the caller asks once more (40001).
CREATE FUNCTION {schema}.advance_plain(_n bigint[], _t text[], _digest bytea, _args bytea, _result bytea) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _run {schema}.run;
    _now bigint := {schema}.lease_ms();
    _before bigint;
    _control integer;
    _answers integer;
BEGIN
    UPDATE {schema}.run
    SET version = version + 1, phase = _n[4], step = _n[5], lease_before = lease_until, lease_until = _now + _n[6],
        updated_at = _n[7]
    WHERE run_no = _n[1] AND owner = _t[1] AND epoch = _n[2] AND version = _n[3] AND lease_until > _now AND status = 1
      AND boot = {schema}.lease_boot() AND (1 << phase) & _n[8]::integer <> 0
    RETURNING lease_before, control, answers INTO _before, _control, _answers;
    IF FOUND THEN
        IF _before <= {schema}.lease_ms() THEN
            RAISE EXCEPTION 'the lease ran out while its row was waited for' USING ERRCODE = 'serialization_failure';
        END IF;
        INSERT INTO {schema}.call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch,
                                   generation, args_digest, args, result, started_at, ended_at, started_version, ended_version,
                                   checksum)
        VALUES (_n[1], _n[9], _t[2], _t[3], _t[4], _n[10], _n[11], _t[5], _n[12], _n[13], _n[14], _n[15], _n[16], _digest, _args,
                _result, _n[17], _n[18], _n[3] + 1, _n[3] + 1, _n[19]);
        RETURN '[' || _now || ',' || _control || ',' || _answers || ',[]]';
    END IF;
    SELECT * INTO _run FROM {schema}.run WHERE run_no = _n[1] FOR NO KEY UPDATE;
    RETURN {schema}.refused({schema}.lease_ms(), _run);
END $$;

-- Any advance.  _rest is all that it writes besides the run's row; see writes.py for what it is made of.
CREATE FUNCTION {schema}.advance(
    _run_no bigint, _owner text, _epoch integer, _version integer, _phase integer, _step integer, _ttl bigint, _at bigint,
    _phase_before integer, _control integer, _answers integer, _rest jsonb, _blobs bytea[]) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _run {schema}.run;
    _now bigint;
    _done boolean;
    _taken integer[] := ARRAY[]::integer[];
    _end jsonb := _rest->'ending';
    _each jsonb;
BEGIN
    SELECT * INTO _run FROM {schema}.run WHERE run_no = _run_no FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    _done := _run.owner = _owner AND _run.epoch = _epoch AND _run.version = _version AND _run.lease_until > _now
             AND _run.status = 1 AND _run.boot = {schema}.lease_boot();
    IF _done IS NOT TRUE THEN
        RETURN {schema}.refused(_now, _run);
    END IF;
    IF _rest ? 'rebase' THEN
        _done := _run.intent IS NOT NULL
                 AND ((_end->>'status')::integer = 1 OR (_run.control = _control AND _run.answers = _answers));
    ELSIF _end IS NOT NULL THEN
        _done := (1 << _run.phase) & _phase_before <> 0 AND (1 << _run.status) & (_end->>'status_before')::integer <> 0
                 AND _run.control = _control AND _run.answers = _answers
                 AND (_run.intent IS NULL OR NOT (_end->>'final')::boolean);
    ELSE
        _done := (1 << _run.phase) & _phase_before <> 0;
    END IF;
    IF _done IS NOT TRUE THEN
        RETURN {schema}.refused(_now, _run);
    END IF;
    IF _end IS NULL THEN
        UPDATE {schema}.run
        SET version = _version + 1, phase = _phase, step = _step, lease_until = _now + _ttl, updated_at = _at
        WHERE run_no = _run_no;
    ELSE
        PERFORM {schema}.end_advance(_run, _phase, _step, _now + _ttl, _at, _rest, _blobs);
    END IF;
    IF _rest ? 'gives' THEN
        _taken := {schema}.give_and_take(_run_no, _rest, _blobs);
    END IF;
    IF _rest ? 'intent' THEN
        UPDATE {schema}.run SET intent = _blobs[(_rest->>'intent')::integer] WHERE run_no = _run_no AND intent IS NOT NULL;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'JM001', MESSAGE = '[]';
        END IF;
    END IF;
    IF _rest ? 'bad_call' THEN
        RAISE EXCEPTION USING ERRCODE = 'JM002', MESSAGE = (_rest->'bad_call')::text;
    END IF;
    IF _rest ? 'calls' THEN
        PERFORM {schema}.add_calls(_run_no, _version + 1, _rest->'calls', _blobs, _taken);
    END IF;
    FOR _each IN SELECT jsonb_array_elements(_rest->'changes') LOOP
        IF NOT {schema}.change_call(_run_no, _version + 1, _each, _blobs, (_each->>'seq')::integer = ANY (_taken),
                                    (_rest->>'awaiting_before')::integer) THEN
            RAISE EXCEPTION USING ERRCODE = 'JM003',
                MESSAGE = json_build_array(_each->'seq', CASE WHEN (_each->>'seq')::integer = ANY (_taken) THEN '1'
                                                              ELSE _each->'state' END)::text;
        END IF;
    END LOOP;
    FOR _each IN SELECT jsonb_array_elements(_rest->'artifacts') LOOP
        PERFORM {schema}.keep_artifact(_run_no, _blobs[(_each->>0)::integer], (_each->>1)::integer,
                                       _blobs[(_each->>2)::integer]);
    END LOOP;
    FOR _each IN SELECT jsonb_array_elements(_rest->'checkpoints') LOOP
        PERFORM {schema}.keep_checkpoint(_run_no, _each, _blobs);
    END LOOP;
    IF _rest ? 'requests' THEN
        INSERT INTO {schema}.request (run_no, request_id, call_seq, call_id, attempt, kind, created_at, expires_at)
        SELECT _run_no, asked->>0, (asked->>1)::integer, asked->>2, (asked->>3)::integer, (asked->>4)::smallint,
               (asked->>5)::bigint, (asked->>6)::bigint
        FROM jsonb_array_elements(_rest->'requests') WITH ORDINALITY AS given (asked, place) ORDER BY place
        ON CONFLICT (run_no, call_seq, kind, attempt) DO NOTHING;
    END IF;
    IF _rest ? 'withdraws' THEN
        UPDATE {schema}.request SET verdict = 5, answered_at = _at
        WHERE request_id = ANY (ARRAY (SELECT jsonb_array_elements_text(_rest->'withdraws'))) AND run_no = _run_no
          AND verdict IS NULL;
    END IF;
    IF _rest ? 'events' THEN
        PERFORM {schema}.add_events(_run_no, _rest->'events', _taken, (_rest->>'call_started')::integer);
    END IF;
    IF _rest ? 'open_status' THEN
        PERFORM {schema}.nothing_open(_run_no, (_rest->>'open_status')::integer);
    END IF;
    RETURN json_build_array(_now, _run.control, _run.answers, _taken)::text;
END $$;

-- The run leaves RUNNING, or a rollback ends: with a new head, or, where only files were put back, as the run was.
CREATE FUNCTION {schema}.end_advance(_old {schema}.run, _phase integer, _step integer, _lease_until bigint, _at bigint,
                                     _rest jsonb, _blobs bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _end jsonb := _rest->'ending';
    _status integer := (_end->>'status')::integer;
    _base integer := (_rest->>'base')::integer;
BEGIN
    UPDATE {schema}.run
    SET version = version + 1, phase = _phase, step = _step, status = _status,
        generation = generation + (_base IS NOT NULL)::integer,
        line = CASE WHEN _base IS NULL THEN line ELSE coalesce(line || ' ', '') || (version + 1) || ':' || _base END,
        intent = CASE WHEN _rest ? 'rebase' THEN NULL ELSE intent END,
        owner = CASE WHEN _status = 1 THEN owner END, lease_until = CASE WHEN _status = 1 THEN _lease_until ELSE 0 END,
        wake_at = (_end->>'wake_at')::bigint, waiting_on = _end->>'waiting_on',
        output_digest = _blobs[(_end->>'output_digest')::integer], error_class = (_end->>'error_class')::smallint,
        error_type = _end->>'error_type', error_message = _end->>'error_message', failed_calls = _end->>'failed_calls',
        updated_at = _at
    WHERE run_no = _old.run_no;
    IF _status = 0 OR (_status = 2 AND _old.control <> 0) THEN
        PERFORM {schema}.tell();
    END IF;
END $$;

-- New calls.  One whose name or paths another holds (_taken) is AWAITING, with one attempt less.
CREATE FUNCTION {schema}.add_calls(_run_no bigint, _version integer, _calls jsonb, _blobs bytea[], _taken integer[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO {schema}.call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation,
                               args_digest, args, args_artifact, key, result, result_artifact, failure, usage, boot, dispatch_by,
                               started_at, ended_at, started_version, ended_version, checksum, over_at, identity, identity_scope,
                               before, after, undone)
    SELECT _run_no, seq, call_id, branch, step, ordinal, kind, tool, effect,
           CASE WHEN seq = ANY (_taken) THEN 1 ELSE state END, attempt - (seq = ANY (_taken))::integer, epoch, generation,
           _blobs[args_digest], _blobs[args], _blobs[args_artifact], key, _blobs[result], _blobs[result_artifact],
           _blobs[failure], _blobs[usage], _blobs[boot], dispatch_by, started_at, ended_at, _version,
           CASE WHEN ends AND seq <> ALL (_taken) THEN _version END, checksum, over_at, identity, identity_scope,
           _blobs[before], _blobs[after], coalesce(undone, 0)
    FROM jsonb_to_recordset(_calls) AS new (
        seq integer, call_id text, branch text, step text, ordinal integer, kind smallint, tool text, effect smallint,
        state smallint, attempt integer, epoch integer, generation integer, args_digest integer, args integer,
        args_artifact integer, key text, result integer, result_artifact integer, failure integer, usage integer, boot integer,
        dispatch_by bigint, started_at bigint, ended_at bigint, ends boolean, checksum bigint, over_at bigint, identity text,
        identity_scope smallint, before integer, after integer, undone integer);
END $$;

-- Keep a checkpoint, unless its version has one already, and read it back: a recovery stands on it, so one that the database did
-- not take as it was given must be known while the run still stands at it.
CREATE FUNCTION {schema}.keep_checkpoint(_run_no bigint, _given jsonb, _blobs bytea[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _row {schema}.checkpoint;
    _kept {schema}.checkpoint;
    _is_new boolean;
BEGIN
    _row.run_no := _run_no;
    _row.version := (_given->>'version')::integer;
    _row.base_version := (_given->>'base_version')::integer;
    _row.name := _given->>'name';
    _row.level := (_given->>'level')::smallint;
    _row.trigger := _given->>'trigger';
    _row.refs := _given->>'refs';
    _row.step := (_given->>'step')::integer;
    _row.phase := (_given->>'phase')::smallint;
    _row.context := _blobs[(_given->>'context')::integer];
    _row.created_at := (_given->>'created_at')::bigint;
    _row.checksum := _blobs[(_given->>'checksum')::integer];
    _row.tree := _blobs[(_given->>'tree')::integer];
    _row.environment := _blobs[(_given->>'environment')::integer];
    _row.storage := (_given->>'storage')::smallint;
    INSERT INTO {schema}.checkpoint SELECT _row.* ON CONFLICT DO NOTHING;
    _is_new := FOUND;
    SELECT * INTO _kept FROM {schema}.checkpoint WHERE run_no = _run_no AND version = _row.version;
    IF NOT FOUND OR (_is_new AND _kept IS DISTINCT FROM _row) THEN
        RAISE EXCEPTION USING ERRCODE = 'JM005', MESSAGE = json_build_array(_row.name)::text;
    END IF;
END $$;

-- No call is STARTED; and where the run is completed, of none is it unknown whether it happened.
CREATE FUNCTION {schema}.nothing_open(_run_no bigint, _status integer) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _call_id text;
    _state integer;
BEGIN
    SELECT call_id, state INTO _call_id, _state FROM {schema}.call
    WHERE run_no = _run_no AND state IN (0, 1, 2, 5) AND (state = 2 OR (state = 5 AND _status = 5))
    ORDER BY seq LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'JM004', MESSAGE = json_build_array(_call_id, _state, _status)::text;
    END IF;
END $$;

-- Many advances as advance_plain's, each of another run, in a transaction that has locked all of these: so the clock can be read
-- once.  Every argument is a column; digest, arguments and result of each lie one after the other in _data, and the lengths say
-- where.  Answers a JSON array of what advance_plain would have answered for each, in order.
CREATE FUNCTION {schema}.advance_many(
    _run_no bigint[], _owner text[], _epoch integer[], _version integer[], _phase integer[], _step integer[], _ttl bigint[],
    _at bigint[], _phase_before integer[], _seq integer[], _call_id text[], _branch text[], _call_step text[], _ordinal integer[],
    _kind integer[], _tool text[], _effect integer[], _state integer[], _attempt integer[], _call_epoch integer[],
    _generation integer[], _started_at bigint[], _ended_at bigint[], _checksum bigint[], _start integer[], _digest integer[],
    _args integer[], _result integer[], _data bytea) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _now bigint := {schema}.lease_ms();
    _boot bytea := {schema}.lease_boot();
    _replies text;
BEGIN
    WITH given AS MATERIALIZED (
        SELECT * FROM unnest(
            _run_no, _owner, _epoch, _version, _phase, _step, _ttl, _at, _phase_before, _seq, _call_id, _branch, _call_step,
            _ordinal, _kind, _tool, _effect, _state, _attempt, _call_epoch, _generation, _started_at, _ended_at, _checksum,
            _start, _digest, _args, _result)
        WITH ORDINALITY AS given (
            run_no, owner, epoch, version, phase, step, ttl, at, phase_before, seq, call_id, branch, call_step, ordinal, kind,
            tool, effect, state, attempt, call_epoch, generation, started_at, ended_at, checksum, start, digest, args, result,
            place)
    ), gone_on AS (
        UPDATE {schema}.run AS run
        SET version = run.version + 1, phase = given.phase, step = given.step, lease_until = _now + given.ttl,
            updated_at = given.at
        FROM given
        WHERE run.run_no = given.run_no AND run.owner = given.owner AND run.epoch = given.epoch AND run.version = given.version
          AND run.lease_until > _now AND run.status = 1 AND run.boot = _boot AND (1 << run.phase) & given.phase_before <> 0
        RETURNING run.run_no, run.control, run.answers
    ), added AS (
        INSERT INTO {schema}.call (run_no, seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch,
                                   generation, args_digest, args, result, started_at, ended_at, started_version, ended_version,
                                   checksum)
        SELECT run_no, seq, call_id, branch, call_step, ordinal, kind, tool, effect, state, attempt, call_epoch, generation,
               substring(_data FROM start FOR digest), substring(_data FROM start + digest FOR args),
               substring(_data FROM start + digest + args FOR result), started_at, ended_at, version + 1, version + 1, checksum
        FROM given JOIN gone_on USING (run_no)
    )
    SELECT '[' || string_agg(CASE WHEN gone_on.run_no IS NULL THEN 'null'
                                  ELSE '[' || _now || ',' || control || ',' || answers || ',[]]' END, ',' ORDER BY place) || ']'
    INTO _replies
    FROM given LEFT JOIN gone_on USING (run_no);
    IF position('null' IN _replies) > 0 THEN
        SELECT json_agg(CASE WHEN json_typeof(replies.said) <> 'null' THEN replies.said
                             ELSE {schema}.refused(_now, run)::json END ORDER BY place)::text
        INTO _replies
        FROM unnest(_run_no) WITH ORDINALITY AS given (run_no, place)
        JOIN json_array_elements(_replies::json) WITH ORDINALITY AS replies (said, place) USING (place)
        LEFT JOIN {schema}.run AS run ON run.run_no = given.run_no;
    END IF;
    RETURN _replies;
END $$;
