-- Catalogue of a data folder, user_version 1. docs/storage.md describes every column.
CREATE TABLE counters(
    name TEXT NOT NULL PRIMARY KEY, -- 'world': the last world id given out
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counters VALUES('world', 0);

CREATE TABLE meshes(
    id INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,    -- of the canonical bytes, 32 bytes
    name TEXT NOT NULL,
    vertices INTEGER NOT NULL,
    elements INTEGER NOT NULL,
    nodes_per_element INTEGER NOT NULL,
    size INTEGER NOT NULL,          -- of the canonical bytes
    created REAL NOT NULL,          -- s since 1970
    encoding TEXT NOT NULL,         -- 'zstd'
    data BLOB NOT NULL              -- canonical bytes, encoded
);

CREATE TABLE runs(
    id TEXT NOT NULL PRIMARY KEY,   -- 32 hex digits
    world INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,            -- 'recording', 'closed', 'failed' or 'crashed'
    file TEXT NOT NULL,             -- relative to the data folder
    scene_hash INTEGER NOT NULL,    -- the 64 bits as a signed integer
    steps INTEGER NOT NULL,         -- last step with a row or a frame, at the close
    frames INTEGER NOT NULL,        -- frames at ends of steps, at the close
    bytes INTEGER NOT NULL,         -- size of the file at the close
    created REAL NOT NULL,          -- s since 1970
    closed REAL                     -- s since 1970; NULL while recording
);
CREATE INDEX runs_by_time ON runs(created);
