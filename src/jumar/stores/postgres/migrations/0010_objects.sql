-- Objects of workspaces, which the hosts that use this store share.  As in a host's own file of them (see the workspace's
-- migrations), an object's name is the sha256 of its bytes before packing, and what is there is whole: contents come before the
-- folders that name them, folders before the snapshot.  Nothing here is ever changed in place.

-- Which store this is: each host keeps what it has read under this name.
CREATE TABLE {schema}.object_store (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    identity text NOT NULL
);
INSERT INTO {schema}.object_store (identity) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- Packing 0: as they are.  1: zstd.  2: the digests of the parts, 32 bytes each, that make up a large file.
CREATE TABLE {schema}.object_blob (
    digest  bytea PRIMARY KEY,
    size    bigint NOT NULL,
    packing smallint NOT NULL,
    data    bytea NOT NULL
);
ALTER TABLE {schema}.object_blob ALTER COLUMN data SET STORAGE EXTERNAL;  -- packed already

CREATE TABLE {schema}.object_node (
    digest bytea PRIMARY KEY,
    data   bytea NOT NULL
);

CREATE TABLE {schema}.object_snapshot (
    digest bytea PRIMARY KEY,
    at     bigint NOT NULL,
    data   bytea NOT NULL
);

-- What must not be collected, and who says so.
CREATE TABLE {schema}.object_pin (
    digest bytea NOT NULL,
    reason text COLLATE "C" NOT NULL,
    PRIMARY KEY (reason, digest)
);

-- All in one statement, and so in one transaction and one round trip.  The arrays come sorted by digest: two hosts that put the
-- same objects at once wait for each other's rows in one order.
CREATE FUNCTION {schema}.objects_put(
    blobs bytea[], sizes bigint[], packings smallint[], contents bytea[], nodes bytea[], folders bytea[],
    snapshots bytea[], times bigint[], trees bytea[], pinned bytea[], reasons text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(blobs) > 0 THEN
        INSERT INTO {schema}.object_blob (digest, size, packing, data)
        SELECT * FROM unnest(blobs, sizes, packings, contents) ON CONFLICT (digest) DO NOTHING;
    END IF;
    IF cardinality(nodes) > 0 THEN
        INSERT INTO {schema}.object_node (digest, data)
        SELECT * FROM unnest(nodes, folders) ON CONFLICT (digest) DO NOTHING;
    END IF;
    IF cardinality(snapshots) > 0 THEN
        INSERT INTO {schema}.object_snapshot (digest, at, data)
        SELECT * FROM unnest(snapshots, times, trees) ON CONFLICT (digest) DO NOTHING;
    END IF;
    IF cardinality(pinned) > 0 THEN
        INSERT INTO {schema}.object_pin (digest, reason)
        SELECT * FROM unnest(pinned, reasons) ON CONFLICT (reason, digest) DO NOTHING;
    END IF;
END $$;
