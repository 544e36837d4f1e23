-- The statements about objects of workspaces, by name; {schema} is the schema's name.

-- name: object_store
SELECT identity FROM {schema}.object_store;

-- name: objects_server
-- Another one after a restore from a dump, and after a standby has taken over.
SELECT system_identifier::text || '-' || timeline_id FROM pg_control_system(), pg_control_checkpoint();

-- name: objects_put
SELECT {schema}.objects_put(%b::bytea[], %b::bigint[], %b::smallint[], %b::bytea[], %b::bytea[], %b::bytea[],
                            %b::bytea[], %b::bigint[], %b::bytea[], %b::bytea[], %b::text[]);

-- name: blob_missing
SELECT digest FROM unnest(%b::bytea[]) AS asked (digest)
WHERE NOT EXISTS (SELECT FROM {schema}.object_blob AS kept WHERE kept.digest = asked.digest);

-- name: node_missing
SELECT digest FROM unnest(%b::bytea[]) AS asked (digest)
WHERE NOT EXISTS (SELECT FROM {schema}.object_node AS kept WHERE kept.digest = asked.digest);

-- name: snapshot_missing
SELECT digest FROM unnest(%b::bytea[]) AS asked (digest)
WHERE NOT EXISTS (SELECT FROM {schema}.object_snapshot AS kept WHERE kept.digest = asked.digest);

-- name: blob_get
SELECT digest, packing, data FROM {schema}.object_blob WHERE digest = ANY(%b::bytea[]);

-- name: node_get
SELECT digest, 0, data FROM {schema}.object_node WHERE digest = ANY(%b::bytea[]);

-- name: snapshot_get
SELECT digest, at, data FROM {schema}.object_snapshot WHERE digest = ANY(%b::bytea[]);

-- name: blob_every
SELECT digest, packing, data FROM {schema}.object_blob WHERE digest > %b ORDER BY digest LIMIT %s;

-- name: node_every
SELECT digest, 0, data FROM {schema}.object_node WHERE digest > %b ORDER BY digest LIMIT %s;

-- name: snapshot_every
SELECT digest, at, data FROM {schema}.object_snapshot WHERE digest > %b ORDER BY digest LIMIT %s;

-- name: objects_pins
SELECT digest, reason FROM {schema}.object_pin WHERE starts_with(reason, %s) AND reason >= %s ORDER BY reason, digest;

-- name: objects_unpin
DELETE FROM {schema}.object_pin WHERE digest = %b AND reason = %s;

-- name: objects_size
SELECT pg_total_relation_size('{schema}.object_blob') + pg_total_relation_size('{schema}.object_node')
     + pg_total_relation_size('{schema}.object_snapshot') + pg_total_relation_size('{schema}.object_pin');
