-- One recorded run, user_version 3. Table steps is made beside these, from the caller's columns.
CREATE TABLE run( -- one row
    id TEXT NOT NULL PRIMARY KEY,   -- 32 hex digits
    world INTEGER NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL,            -- 'created', 'recording', 'closed', 'crashed' or 'exported'
    journal TEXT NOT NULL,          -- how it was recorded: 'wal' or 'truncate'
    created REAL NOT NULL,          -- s since 1970
    closed REAL,                    -- s since 1970; NULL while recording
    dt REAL NOT NULL,               -- s
    scene_hash INTEGER NOT NULL,    -- the 64 bits as a signed integer
    start_hash INTEGER NOT NULL,    -- state hash before the first step
    frame_dtype TEXT NOT NULL,      -- '<f4' or '<f8'
    frame_nodes INTEGER NOT NULL,   -- nodes of a frame
    versions TEXT NOT NULL          -- JSON: program, libraries, CPU
);
CREATE TABLE scene( -- one row
    json TEXT NOT NULL              -- canonical wire form
);
CREATE TABLE meshes(
    sha256 BLOB NOT NULL PRIMARY KEY, -- of the canonical bytes, 32 bytes
    size INTEGER NOT NULL,          -- of the canonical bytes
    encoding TEXT NOT NULL,         -- 'zstd'
    data BLOB NOT NULL              -- canonical bytes, encoded
);
CREATE TABLE bodies(
    body INTEGER PRIMARY KEY,       -- index in the scene, from 0
    name TEXT NOT NULL,
    kind TEXT NOT NULL,             -- 'cable', 'cloth', 'rigid', 'static', 'kinematic'
    first_node INTEGER NOT NULL,    -- slice of a frame
    node_count INTEGER NOT NULL,    -- 0: does not move
    element_count INTEGER NOT NULL,
    nodes_per_element INTEGER NOT NULL,
    radius REAL NOT NULL,           -- m
    mesh BLOB                       -- sha256, or NULL
);
CREATE TABLE frames(
    id INTEGER PRIMARY KEY,         -- in the order written
    step INTEGER NOT NULL,
    substep INTEGER NOT NULL,       -- -1: end of the step; 0, 1, ...: states inside it
    time REAL,                      -- s
    hash INTEGER NOT NULL,          -- state hash, 0 for substeps
    dtype TEXT NOT NULL,            -- '<f4' or '<f8'
    nodes INTEGER NOT NULL,
    encoding TEXT NOT NULL,         -- 'zstd-planes' or 'zstd': a key frame
    base INTEGER,                   -- NULL: a key frame; else the frame that a delta builds on
    data BLOB NOT NULL              -- positions (nodes x 3), m, row-major, encoded
);
CREATE UNIQUE INDEX frames_by_step ON frames(step, substep);
CREATE TABLE contacts(
    step INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    record_size INTEGER NOT NULL,   -- bytes of one record
    encoding TEXT NOT NULL,         -- 'zstd'
    data BLOB NOT NULL              -- count records, encoded
);
CREATE TABLE reactions(             -- of fixed points; columns as in contacts
    step INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    record_size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE limit_forces(          -- of strain limits that hold
    step INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    record_size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE conflicts(             -- rows that contradict each other
    step INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    record_size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE joints(                -- forces of joints
    step INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    record_size INTEGER NOT NULL,
    encoding TEXT NOT NULL,
    data BLOB NOT NULL
);
CREATE TABLE commands(
    id INTEGER PRIMARY KEY,         -- in the order given
    step INTEGER NOT NULL,          -- asked before this step
    method TEXT NOT NULL,
    json TEXT NOT NULL
);
CREATE INDEX commands_by_step ON commands(step);
CREATE TABLE events(
    id INTEGER PRIMARY KEY,
    step INTEGER NOT NULL,
    created REAL NOT NULL,          -- s since 1970, when it was written
    kind TEXT NOT NULL,             -- 'non-finite', 'gap', ... or the recorder's own
    subject TEXT,                   -- of 'non-finite': table.column
    message TEXT NOT NULL           -- of 'non-finite': 'nan', 'inf' or '-inf'
);
CREATE INDEX events_by_step ON events(step, kind, subject);
