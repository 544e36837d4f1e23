-- Functions about runs that move from one store to another: whether one is elsewhere, its arrival here, its departure.

-- Whether a run goes on in another store, so that nobody may touch it in this one.
CREATE FUNCTION {schema}.is_elsewhere(_run {schema}.run) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(_run.status = 6 AND _run.error_type IN ('arriving here', 'moved away'), false);
END $$;

-- An adopted run becomes what it was.  Answers: clock, run number, version, epoch, control, answers.
CREATE FUNCTION {schema}.arrive_run(
    _run_id text, _epoch integer, _version integer, _answers integer, _control integer, _status integer, _epoch_after integer,
    _wake_at bigint, _waiting_on text, _error_class integer, _error_type text, _error_message text, _at bigint, _kind integer)
    RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _old {schema}.run;
    _run {schema}.run;
    _now bigint;
BEGIN
    SELECT * INTO _old FROM {schema}.run WHERE run_id = _run_id FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF NOT FOUND OR _old.status <> 6 OR _old.error_type IS DISTINCT FROM 'arriving here' OR
       (_old.epoch, _old.version, _old.answers, _old.control) <> (_epoch, _version, _answers, _control) THEN
        RETURN {schema}.refused(_now, _old);
    END IF;
    UPDATE {schema}.run
    SET status = _status, epoch = _epoch_after, wake_at = _wake_at, waiting_on = _waiting_on, error_class = _error_class,
        error_type = _error_type, error_message = _error_message
    WHERE run_no = _old.run_no
    RETURNING * INTO _run;
    IF _epoch_after <> _epoch THEN
        INSERT INTO {schema}.event (run_no, kind, at, epoch, detail) VALUES (_run.run_no, _kind, _at, _run.epoch, '');
        PERFORM {schema}.tell();
    END IF;
    RETURN json_build_array(_now, _run.run_no, _run.version, _run.epoch, _run.control, _run.answers)::text;
END $$;

-- A run goes on in another store.  Answers: clock, run number, version, epoch, control, answers.
CREATE FUNCTION {schema}.depart_run(
    _run_id text, _epoch integer, _version integer, _answers integer, _control integer, _message text, _final integer, _at bigint,
    _kind integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    _old {schema}.run;
    _now bigint;
BEGIN
    SELECT * INTO _old FROM {schema}.run WHERE run_id = _run_id FOR NO KEY UPDATE;
    _now := {schema}.lease_ms();
    IF NOT FOUND OR (1 << _old.status) & _final <> 0
       OR (_old.owner IS NOT NULL AND _old.boot = {schema}.lease_boot() AND _old.lease_until > _now)
       OR (_old.epoch, _old.version, _old.answers, _old.control) <> (_epoch, _version, _answers, _control) THEN
        RETURN {schema}.refused(_now, _old);
    END IF;
    UPDATE {schema}.run
    SET status = 6, owner = NULL, lease_until = 0, wake_at = NULL, waiting_on = NULL, error_class = NULL,
        error_type = 'moved away', error_message = _message, updated_at = _at
    WHERE run_no = _old.run_no;
    DELETE FROM {schema}.hold WHERE run_no = _old.run_no;
    UPDATE {schema}.request SET verdict = 5, answered_at = _at WHERE run_no = _old.run_no AND verdict IS NULL;
    INSERT INTO {schema}.event (run_no, kind, at, epoch, detail) VALUES (_old.run_no, _kind, _at, _old.epoch, '');
    RETURN json_build_array(_now, _old.run_no, _old.version, _old.epoch, _old.control, _old.answers)::text;
END $$;
