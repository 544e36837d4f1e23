-- Everything a workspace keeps outside itself.  An object's name is the sha256 of its bytes, before packing; what is
-- there is whole, for objects come in transactions, and a snapshot comes after everything it names.

-- Contents of files.  Packing 0: as they are.  1: zstd.  2: the digests of the parts, 32 bytes each, that make up a
-- large file; the parts are blobs of their own.
CREATE TABLE blobs (
    digest BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    packing INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

-- Folders: their entries, packed as core/trees.py says.
CREATE TABLE nodes (
    digest BLOB NOT NULL UNIQUE,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE snapshots (
    digest BLOB NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

-- What must not be collected, and who says so.
CREATE TABLE pins (
    digest BLOB NOT NULL,
    reason TEXT NOT NULL,
    UNIQUE (digest, reason)
) STRICT;

-- The stat cache: for each folder of a root what its files were when their content was read last.  A hint: whoever
-- deletes objects deletes it first, and whatever it lacks is read again.
CREATE TABLE roots (
    root_no INTEGER PRIMARY KEY,
    path BLOB NOT NULL UNIQUE
) STRICT;

CREATE TABLE stat_cache (
    root_no INTEGER NOT NULL,
    folder BLOB NOT NULL,
    row BLOB NOT NULL,
    UNIQUE (root_no, folder)
) STRICT;
