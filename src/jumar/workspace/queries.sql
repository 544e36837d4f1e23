-- The statements of a workspace's objects, by name.

-- name: add_blob
INSERT INTO blobs (digest, size, packing, data) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO NOTHING;

-- name: add_node
INSERT INTO nodes (digest, data) VALUES (?, ?) ON CONFLICT (digest) DO NOTHING;

-- name: add_snapshot
INSERT INTO snapshots (digest, at, data) VALUES (?, ?, ?) ON CONFLICT (digest) DO NOTHING;

-- name: drop_blob
DELETE FROM blobs WHERE digest = ?;

-- name: drop_node
DELETE FROM nodes WHERE digest = ?;

-- name: drop_snapshot
DELETE FROM snapshots WHERE digest = ?;

-- name: blob
SELECT packing, data FROM blobs WHERE digest = ?;

-- name: blobs_there
-- With as many ? in the place of :digests as are asked about.
SELECT digest FROM blobs WHERE digest IN (:digests);

-- name: nodes_there
SELECT digest FROM nodes WHERE digest IN (:digests);

-- name: snapshots_there
SELECT digest FROM snapshots WHERE digest IN (:digests);

-- name: node
SELECT data FROM nodes WHERE digest = ?;

-- name: snapshot
SELECT data FROM snapshots WHERE digest = ?;

-- name: add_pin
INSERT INTO pins (digest, reason) VALUES (?, ?) ON CONFLICT (digest, reason) DO NOTHING;

-- name: drop_pin
DELETE FROM pins WHERE digest = ? AND reason = ?;

-- name: pins
SELECT digest, reason FROM pins WHERE substr(reason, 1, ?) = ?;

-- name: stat_rows
SELECT folder, row FROM stat_cache WHERE root_no = (SELECT root_no FROM roots WHERE path = ?);

-- name: add_root
INSERT INTO roots (path) VALUES (?) ON CONFLICT (path) DO NOTHING;

-- name: root_no
SELECT root_no FROM roots WHERE path = ?;

-- name: put_stat_row
INSERT INTO stat_cache (root_no, folder, row) VALUES (?, ?, ?)
ON CONFLICT (root_no, folder) DO UPDATE SET row = excluded.row;

-- name: drop_stat_row
DELETE FROM stat_cache WHERE root_no = ? AND folder = ?;

-- name: every_blob
SELECT rowid, digest, packing, data FROM blobs WHERE rowid > ? ORDER BY rowid LIMIT 1;

-- name: every_node
SELECT rowid, digest, 0, data FROM nodes WHERE rowid > ? ORDER BY rowid LIMIT 500;

-- name: every_snapshot
SELECT rowid, digest, 0, data FROM snapshots WHERE rowid > ? ORDER BY rowid LIMIT 500;
