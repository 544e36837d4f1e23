-- Functions about calls: their states, their names and the paths they hold.

-- Give a call its next state, and say whether its present one allowed that.  Where its name or its paths are another's (_taken),
-- the call awaits them instead, with one attempt less.
CREATE FUNCTION {schema}.change_call(_run_no bigint, _version integer, _call jsonb, _blobs bytea[], _taken boolean,
                                     _awaiting_before integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    UPDATE {schema}.call
    SET state = CASE WHEN _taken THEN 1 ELSE (_call->>'state')::smallint END,
        attempt = (_call->>'attempt')::integer - _taken::integer,
        epoch = (_call->>'epoch')::integer,
        result = coalesce(_blobs[(_call->>'result')::integer], result),
        result_artifact = coalesce(_blobs[(_call->>'result_artifact')::integer], result_artifact),
        failure = _blobs[(_call->>'failure')::integer],
        over_at = (_call->>'over_at')::bigint,
        usage = coalesce(_blobs[(_call->>'usage')::integer], usage),
        boot = coalesce(_blobs[(_call->>'boot')::integer], boot),
        dispatch_by = coalesce((_call->>'dispatch_by')::bigint, dispatch_by),
        started_at = coalesce((_call->>'started_at')::bigint, started_at),
        ended_at = (_call->>'ended_at')::bigint,
        started_version = CASE WHEN NOT _taken AND _call ? 'starts' THEN _version ELSE started_version END,
        ended_version = CASE WHEN NOT _taken AND _call ? 'ends' THEN _version ELSE ended_version END,
        checksum = coalesce((_call->>'checksum')::bigint, checksum),
        identity = coalesce(_call->>'identity', identity),
        identity_scope = coalesce((_call->>'identity_scope')::smallint, identity_scope),
        before = coalesce(_blobs[(_call->>'before')::integer], before),
        after = coalesce(_blobs[(_call->>'after')::integer], after),
        undone = coalesce((_call->>'undone')::integer, undone)
    WHERE run_no = _run_no AND seq = (_call->>'seq')::integer
      AND (1 << state) & CASE WHEN _taken THEN _awaiting_before ELSE (_call->>'state_before')::integer END <> 0;
    RETURN FOUND;
END $$;

-- Give up whatever names a call holds; with _undone because what it did was undone, which is counted.
CREATE FUNCTION {schema}.free_names(_run_no bigint, _seq integer, _undone boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF NOT _undone THEN
        DELETE FROM {schema}.identity WHERE run_no = _run_no AND call_seq = _seq AND undone = 0;
    END IF;
    UPDATE {schema}.identity SET run_no = 0, call_seq = 0, undone = undone + _undone::integer
    WHERE run_no = _run_no AND call_seq = _seq;
END $$;

-- Take a name for a call: its row is inserted, or is the call's already, or that of the holder whose place may be taken.
CREATE FUNCTION {schema}.take_name(_run_no bigint, _seq integer, _take jsonb, _blobs bytea[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _scope bigint := CASE WHEN (_take->>'everywhere')::boolean THEN 0 ELSE _run_no END;
    _undone integer := (_take->>'undone')::integer;
BEGIN
    INSERT INTO {schema}.identity AS held (scope_run, key, run_no, call_seq, args_digest, undone)
    SELECT _scope, _take->>'key', _run_no, _seq, _blobs[(_take->>'args_digest')::integer], _undone
    WHERE _undone = 0
       OR EXISTS (SELECT 1 FROM {schema}.identity AS known WHERE known.scope_run = _scope AND known.key = _take->>'key')
    ON CONFLICT (scope_run, key) DO UPDATE
    SET run_no = excluded.run_no, call_seq = excluded.call_seq, args_digest = excluded.args_digest
    WHERE held.undone = excluded.undone
      AND ((held.run_no = excluded.run_no AND held.call_seq = excluded.call_seq)
           OR (held.run_no = (_take->>'instead_run')::bigint AND held.call_seq = (_take->>'instead_seq')::integer)
           OR held.run_no = 0);
    RETURN FOUND;
END $$;

-- A call other than this one that holds a path, one below it, or one of those above it (_hold names these, the path first).
CREATE FUNCTION {schema}.in_the_way(_run_no bigint, _seq integer, _hold jsonb, _blobs bytea[]) RETURNS {schema}.hold
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _workspace text := _hold->>'workspace';
    _path bytea := _blobs[(_hold->>'path')::integer];
    _above bytea[] := ARRAY (SELECT _blobs[place::integer] FROM jsonb_array_elements_text(_hold->'above') AS place);
    _other {schema}.hold;
BEGIN
    IF _path = '' THEN
        SELECT * INTO _other FROM {schema}.hold
        WHERE workspace = _workspace AND (run_no, call_seq) IS DISTINCT FROM (_run_no, _seq) ORDER BY path LIMIT 1;
        RETURN _other;
    END IF;
    SELECT * INTO _other FROM {schema}.hold  -- between the path's slash and the byte that follows a slash lies all below it
    WHERE workspace = _workspace AND path >= _path || '/'::bytea AND path < _path || '0'::bytea
      AND (run_no, call_seq) IS DISTINCT FROM (_run_no, _seq) ORDER BY path LIMIT 1;
    IF NOT FOUND THEN
        SELECT * INTO _other FROM {schema}.hold
        WHERE workspace = _workspace AND path = ANY (_above)
          AND (run_no, call_seq) IS DISTINCT FROM (_run_no, _seq) ORDER BY path DESC LIMIT 1;
    END IF;
    RETURN _other;
END $$;

CREATE FUNCTION {schema}.hold_path(_run_no bigint, _seq integer, _hold jsonb, _blobs bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO {schema}.hold (workspace, path, run_no, call_seq)
    VALUES (_hold->>'workspace', _blobs[(_hold->>'path')::integer], _run_no, _seq)
    ON CONFLICT DO NOTHING;
END $$;

-- One call's name and all its paths, or nothing: whether the paths are free is looked at before the name is taken.
CREATE FUNCTION {schema}.take_all(_run_no bigint, _wanted jsonb, _blobs bytea[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _seq integer := (_wanted->>'seq')::integer;
    _each jsonb;
    _other {schema}.hold;
BEGIN
    FOR _each IN SELECT jsonb_array_elements(_wanted->'holds') LOOP
        _other := {schema}.in_the_way(_run_no, _seq, _each, _blobs);
        IF _other.workspace IS NOT NULL THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR _each IN SELECT jsonb_array_elements(_wanted->'takes') LOOP
        IF NOT {schema}.take_name(_run_no, _seq, _each, _blobs) THEN
            RETURN false;
        END IF;
    END LOOP;
    FOR _each IN SELECT jsonb_array_elements(_wanted->'holds') LOOP
        PERFORM {schema}.hold_path(_run_no, _seq, _each, _blobs);
    END LOOP;
    RETURN true;
END $$;

-- What an advance gives up, then what it takes; answers the numbers of the calls whose names or paths others hold, in order.
CREATE FUNCTION {schema}.give_and_take(_run_no bigint, _rest jsonb, _blobs bytea[]) RETURNS integer[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _each jsonb;
    _taken integer[] := ARRAY[]::integer[];
BEGIN
    PERFORM {schema}.lock_wanted(
        ARRAY (SELECT jsonb_array_elements_text(_rest->'workspaces')), ARRAY (SELECT jsonb_array_elements_text(_rest->'keys')),
        ARRAY (SELECT _run_no FROM jsonb_array_elements(_rest->'frees')),
        ARRAY (SELECT (freed->>0)::integer FROM jsonb_array_elements(_rest->'frees') AS freed));
    FOR _each IN SELECT jsonb_array_elements(_rest->'frees') LOOP
        PERFORM {schema}.free_names(_run_no, (_each->>0)::integer, (_each->>1)::boolean);
    END LOOP;
    DELETE FROM {schema}.hold
    WHERE run_no = _run_no AND call_seq = ANY (ARRAY (SELECT jsonb_array_elements_text(_rest->'drops')::integer));
    FOR _each IN SELECT jsonb_array_elements(_rest->'wants') LOOP
        IF NOT {schema}.take_all(_run_no, _each, _blobs) THEN
            _taken := _taken || (_each->>'seq')::integer;
        END IF;
    END LOOP;
    RETURN ARRAY (SELECT unnest(_taken) ORDER BY 1);
END $$;

-- Add lines to a run's trace.  A start of a call whose attempt is not made (_taken) is left out; _started is that kind.
CREATE FUNCTION {schema}.add_events(_run_no bigint, _events jsonb, _taken integer[], _started integer) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO {schema}.event (run_no, kind, at, call_seq, epoch, detail)
    SELECT _run_no, (line->>0)::smallint, (line->>1)::bigint, (line->>2)::integer, (line->>3)::integer, line->>4
    FROM jsonb_array_elements(_events) WITH ORDINALITY AS given (line, place)
    WHERE (line->>0)::integer <> _started OR (line->>2)::integer IS NULL OR (line->>2)::integer <> ALL (_taken)
    ORDER BY place;
END $$;

CREATE FUNCTION {schema}.keep_artifact(_run_no bigint, _digest bytea, _packing integer, _data bytea) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO {schema}.artifact (run_no, digest, packing, data) VALUES (_run_no, _digest, _packing, _data)
    ON CONFLICT DO NOTHING;
END $$;
