/// The method table and what is made from it but for the docs (protocol/gen_docs.c prints those).
///
/// Fields are checked for name, type and range here, before a handler sees them; what needs the
/// state of a world, and the inside of scenes and controls, is checked where it is known. No state.
/// Any thread.
#include "protocol/methods.h"

#include "base/nearest.h"
#include "protocol/text.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// ---- the table ----

#define STEPS_MAX 9007199254740992.0 // 2^53
#define MAY(name) (1U << QPC_ERR_##name)

// P(name, type, low, high, doc): an optional parameter; N: a needed one; R: a result; M: a result
// that may be missing.
#define P(name, type, low, high, doc)                                                              \
    { name, QPC_FIELD_##type, false, low, high, doc, NULL }
#define N(name, type, low, high, doc)                                                              \
    { name, QPC_FIELD_##type, true, low, high, doc, NULL }
#define WORDS(name, words, doc)                                                                    \
    { name, QPC_FIELD_STR, false, 0, 0, doc, words }
#define R(name, type, doc)                                                                         \
    { name, QPC_FIELD_##type, true, 0, 0, doc, NULL }
#define M(name, type, doc)                                                                         \
    { name, QPC_FIELD_##type, false, 0, 0, doc, NULL }

#define WORLD_PARAM N("world", UINT, 0, 0, "Id of the world.")
#define RUN_PARAM N("run", STR, 0, 32, "Id of the run, 32 hex digits.")
#define PRECISION_PARAM                                                                            \
    WORDS("precision", "float32|float64", "Element type of node arrays; default float32.")
#define BODIES_RESULT                                                                              \
    R("bodies", LIST,                                                                              \
      "Maps {name, kind, first_node, node_count, radius, elements, nodes_per_element, mesh}: which " \
      "rows of the node arrays belong to which body, and what it is. Static bodies have node_count " \
      "0; mesh, a SHA-256, is there for bodies that have one. Bodies of a live world have "          \
      "first_tension and tension_count too: their part of tensions and limit_forces.")

static const qpc_field_spec hello_params[] = {
    P("version", INT, 1, 1000000, "Version of the protocol the client speaks; default 1."),
    P("client", STR, 0, 200, "Name and version of the client, for logs."),
    P("token", STR, 0, 4096, "The shared secret, where the server asks for one."),
    WORDS("role", "control|bulk",
          "What this connection is for: bulk ones carry uploads and stored frames and may wait "
          "behind "
          "each other; default control."),
    WORDS("array_keys", "str|bin",
          "Type of the keys of arrays in what the server sends: bin is what Python's msgpack_numpy "
          "reads; default str. Both are always accepted."),
};
static const qpc_field_spec hello_results[] = {
    R("server", STR, "\"qpcollided\"."),
    R("version", STR, "Version of the server."),
    R("protocol", INT, "Version of the protocol, 1."),
    R("limits", MAP,
      "max_message_bytes, max_depth, max_items, max_text_bytes, max_vertices, max_elements, and "
      "what "
      "else the server bounds."),
    R("role", STR, "What this connection is for, as asked: control or bulk."),
    R("session", UINT, "Number of this connection, as in the server's log."),
};

static const qpc_field_spec describe_results[] = {
    R("methods", LIST,
      "Maps {name, doc, bulk, notification, params, results, errors}; params and results are lists "
      "of "
      "{name, type, required, doc} with min, max, max_bytes and one_of where they apply; errors "
      "are "
      "names."),
    R("errors", LIST, "Maps {code, name, doc}: every error there is."),
    R("step_fields", LIST,
      "Maps {name, type, unit, doc}: the figures of a step, as in summary.last and "
      "run.diagnostics."),
};

static const qpc_field_spec upload_params[] = {
    P("vertices", TENSOR, 0, 0, "Whole upload: positions in m, (n, 3), float64 or float32."),
    P("elements", TENSOR, 0, 0,
      "Whole upload: vertex indices from 0, (m, 2) edges, (m, 3) triangles or (m, 4) tetrahedra, "
      "int32."),
    P("name", STR, 0, 200, "A label for mesh.list."),
    P("sha256", STR, 0, 64, "Chunked upload: SHA-256 of the canonical bytes, 64 hex digits."),
    P("size", UINT, 1, STEPS_MAX, "Chunked upload: number of canonical bytes in all."),
    P("offset", UINT, 0, STEPS_MAX,
      "Chunked upload: where this chunk belongs; 0 starts anew, otherwise what the last reply gave "
      "as "
      "received."),
    P("data", BIN, 0, 0, "Chunked upload: the bytes of this chunk."),
};
static const qpc_field_spec upload_results[] = {
    M("sha256", STR,
      "SHA-256 of the canonical bytes: what a scene names. Missing while chunks are due."),
    M("vertices", INT, "Number of vertices."),
    M("elements", INT, "Number of elements."),
    M("bytes", UINT, "Number of canonical bytes."),
    M("known", BOOL, "The server had this mesh already."),
    M("report", MAP,
      "Findings that do not forbid the mesh: zero_area, unreferenced, duplicate, boundary_edges, "
      "non_manifold_edges, closed; zero_area_examples and unreferenced_examples are the first few numbers."),
    M("received", UINT, "Chunked upload: bytes received so far."),
    M("complete", BOOL, "Chunked upload: this was the last chunk and the hash is right."),
};

static const qpc_field_spec mesh_list_results[] = {
    R("meshes", LIST,
      "Maps {sha256, name, vertices, elements, nodes_per_element, bytes, created}; created in s "
      "since "
      "1970."),
};

static const qpc_field_spec mesh_param[] = {
    N("sha256", STR, 0, 64, "The mesh, 64 hex digits."),
};
static const qpc_field_spec mesh_get_results[] = {
    R("vertices", TENSOR, "Positions in m, (n, 3), float64."),
    R("elements", TENSOR, "Vertex indices, (m, 2), (m, 3) or (m, 4), int32."),
};
static const qpc_field_spec deleted_results[] = {
    R("deleted", BOOL, "true."),
};

#define LIST_PARAM                                                                                 \
    P("list", INT, 1, 1000, "Most elements listed of a finding; default 16. Totals are always whole.")
#define FINDINGS_TEXT "maps {kind, text, total, elements, items}"
#define ITEMS_TEXT                                                                                 \
    " (items are the first few, each a list: the number of a vertex, triangle or tetrahedron; of an " \
    "edge its two vertices and its first triangle; of a pair two triangles, or the tetrahedra that " \
    "they belong to; elements says which)"
static const qpc_field_spec mesh_check_params[] = {
    N("sha256", STR, 0, 64, "The mesh, 64 hex digits."),
    WORDS("use", "surface|cloth|rigid|soft",
          "What it is to be: what is an error depends on it. Default surface (static and kinematic "
          "bodies), for tetrahedra soft."),
    LIST_PARAM,
};
static const qpc_field_spec mesh_check_results[] = {
    R("use", STR, "What it was judged for."),
    R("errors", LIST, "What forbids that use: " FINDINGS_TEXT ITEMS_TEXT "."),
    R("warnings", LIST, "What is legal but looks wrong: " FINDINGS_TEXT "."),
    R("facts", MAP,
      "vertices (of the surface, equal positions once), triangles, edges (without triangles that have no "
      "area or are repeated), elements (as given), parts, euler, closed, oriented, complete (false: "
      "crossings were counted in part), area m2, volume m3 (has a meaning if oriented), low and high "
      "(box, m)."),
};
static const qpc_field_spec scene_check_params[] = {
    N("scene", MAP, 0, 0, "The scene in its wire form (docs/scene.md); meshes by sha256."),
    LIST_PARAM,
};
static const qpc_field_spec scene_check_results[] = {
    R("errors", LIST,
      "What forbids the scene: maps as in mesh.check {kind, text, total, elements, items} with body, "
      "the number of the body, and one {kind: \"scene\", text, where} if world.create would refuse it."),
    R("warnings", LIST,
      "Maps as in errors; {kind: \"scene\", text} for what world.create warns of; "
      "{kind: \"mass_ratio\", text, total, elements, items} if masses of nodes differ by more than "
      "1e4 times: items are [body, node] of the heaviest and of the lightest."),
    R("bodies", LIST,
      "Maps {body, name, kind, use, sha256, facts} of the bodies that have a mesh; facts as in "
      "mesh.check: vertices, triangles, edges, elements, parts, euler, closed, oriented, complete, "
      "area, volume, low, high."),
    R("mass_ratio", REAL, "Heaviest over lightest mass of a node that moves; 0 if unknown."),
};

static const qpc_field_spec create_params[] = {
    N("scene", MAP, 0, 0, "The scene in its wire form (docs/scene.md); meshes by sha256."),
    P("name", STR, 0, 200, "A label; default the scene's name."),
    P("dry_run", BOOL, 0, 0, "Check the scene and report, but make no world; default false."),
    P("idle_limit_s", REAL, 0, 1e9,
      "Destroy the world when nobody called it for so long, s; 0, the default, is never."),
    P("exclusive", BOOL, 0, 0,
      "Only this connection may step, control or destroy the world until it closes; default "
      "false."),
};
static const qpc_field_spec create_results[] = {
    M("world", UINT,
      "Id of the world, never used before in this data folder. Missing after dry_run."),
    M("run", STR, "Id of its run file, or nil if nothing is recorded. Missing after dry_run."),
    R("hash", UINT, "State hash before the first step."),
    R("scene_hash", UINT, "Hash of the canonical scene, which seeds the state hash."),
    R("dt", REAL, "Length of a step, s."),
    BODIES_RESULT,
    R("warnings", LIST, "Sentences about what is legal but looks wrong."),
    R("close_pairs", LIST,
      "Up to 16 maps {bodies, features, depth} of the scene as given: pairs that intersect, then pairs "
      "within their thickness, m. Of what is inside an obstacle the second feature says what the first is: 0 a "
      "vertex, 1 an edge, 2 a triangle. Of other pairs that intersect, depth is how far its edge must be moved along the "
      "triangle's normal to clear the plane: of that pair alone, no measure of how deep the bodies are in each "
      "other. Pairs within their thickness are pushed apart at a capped speed; with start \"push-out\" "
      "both are separated already. In the data of a refusal with stuck_count above 0: the worst of what is "
      "left, depth being the least that is still to go."),
    R("overlap_count", INT, "Pairs that intersected in the scene as given; 0 unless its start is \"push-out\"."),
    R("close_count", INT, "Pairs within their thickness in the scene as given."),
    R("moved_nodes", INT, "Nodes that the push-out moved (docs/scene.md, start)."),
    R("largest_move", REAL, "The longest way of these, m."),
};

static const qpc_field_spec world_list_results[] = {
    R("worlds", LIST,
      "Maps {world, name, step, time, nodes, run, busy, exclusive, owner, idle_s}; owner is the session that "
      "holds an exclusive one, else nil."),
};

static const qpc_field_spec world_param[] = {WORLD_PARAM};
static const qpc_field_spec world_describe_results[] = {
    R("scene", MAP, "The canonical scene."),
    R("name", STR, "The label."),
    BODIES_RESULT,
    R("removed", LIST,
      "Maps {body, step}: bodies, by number, that a control took out of the world after that step. Their rows of the node "
      "arrays stay, and mean nothing."),
    R("step", INT, "Number of the last finished step."),
    R("time", REAL, "Simulated time, s."),
    R("dt", REAL, "Length of a step, s."),
    R("hash", UINT, "State hash after that step."),
    R("scene_hash", UINT, "Hash of the canonical scene."),
    R("run", STR, "Id of its run file, or nil."),
    R("memory_bytes", UINT, "Memory the world holds."),
};
static const qpc_field_spec destroy_results[] = {
    R("destroyed", BOOL, "true."),
    R("steps", INT, "Number of its last step."),
    M("recording", STR,
      "Only if not everything recorded could be written (a full disk, say): why. The run is `failed` then."),
};

static const qpc_field_spec step_params[] = {
    WORLD_PARAM,
    P("n", INT, 1, 1e9, "Number of steps; default 1."),
    P("expect_step", INT, 0, STEPS_MAX,
      "Only step if the last finished step has this number; otherwise error STATE with data "
      "{step}."),
    P("key", STR, 0, 64,
      "Idempotency key: the reply is kept, and the same key again gets it without stepping. The "
      "last "
      "256 of a world are kept."),
    P("control", MAP, 0, 0,
      "Forces, targets, motions, parameters to apply first, as world.control."),
    P("positions", BOOL, 0, 0, "Send positions along; default false."),
    P("velocities", BOOL, 0, 0, "Send velocities along; default false."),
    P("contacts", BOOL, 0, 0, "Send the contacts of the last step along; default false."),
    PRECISION_PARAM,
    P("deadline_ms", INT, 1, 86400000,
      "Stop between two steps once so many ms passed since the request arrived; default none."),
};
static const qpc_field_spec step_results[] = {
    R("reached", INT, "Number of the last finished step."),
    {"status", QPC_FIELD_STR, true, 0, 0,
     "Why it stopped. Anything but ok after fewer than n steps is a partial success.",
     "ok|failed|cancelled|deadline|draining"},
    R("error", MAP, "nil, or {code, name, message, data} of the step that failed."),
    R("hash", UINT, "State hash after the step reached."),
    R("time", REAL, "Simulated time, s."),
    R("summary", MAP,
      "Over this batch: steps, wall_s and cpu_s (of the worker's thread), contacts_max, "
      "active_max, "
      "passes_max, newton_max, halvings, failsafe, not_proven (steps whose motion was not proven: a broken "
      "promise), ccd_uncertain, exhausted (steps that used up their budget), friction_missed (steps that "
      "missed Coulomb's law), conflicts (steps in which rows contradicted each other), relaxed (steps whose rows were relaxed), toi_margin, min_gap (smallest distance over thickness), worst "
      "{stat, prim, dual, comp, natural_ratio, friction_natural (m/s), penetration}, energy_drift_max, and last: every "
      "step "
      "field of the last step. recording, only if not everything could be recorded: why."),
    M("positions", TENSOR, "Positions of all nodes of moving bodies, m, (nodes, 3)."),
    M("velocities", TENSOR, "Their velocities, m/s, (nodes, 3)."),
    M("contacts", MAP,
      "Arrays with one row a contact: bodies (c, 2) and features (c, 2) int32, kind (c) uint8 (0 "
      "vertex-triangle, 1 edge-edge, 2 triangle-obstacle), position (c, 3) m, normal (c, 3), gap (c) m, force (c) N, friction (c, 3): its force on the "
      "first side, N, key (c) uint64 of the feature pair, the same from step to step. Forces of a step "
      "that was halved are those of its last part."),
};

static const qpc_field_spec state_params[] = {
    WORLD_PARAM,
    P("fields", LIST, 0, 0,
      "Which of \"positions\", \"velocities\", \"tensions\", \"contacts\", \"reactions\", "
      "\"limit_forces\", \"conflicts\", \"joints\", \"diagnostics\"; default [\"positions\"]."),
    PRECISION_PARAM,
    P("body", ANY, 0, 0, "Only the nodes of this body, by name or index; default all."),
};
static const qpc_field_spec state_results[] = {
    R("step", INT, "Number of the step the state is of."),
    R("time", REAL, "Simulated time, s."),
    R("hash", UINT, "State hash after that step."),
    M("positions", TENSOR, "m, (nodes, 3)."),
    M("velocities", TENSOR, "m/s, (nodes, 3)."),
    M("tensions", TENSOR, "Of the springs of cables and cloth, body after body, N, (springs)."),
    M("contacts", MAP, "As in world.step."),
    M("reactions", MAP, "Of fixed points: node (f) int32 and force (f, 3) N."),
    M("limit_forces", TENSOR,
      "Of the strain limits, one a spring, N, (springs): 0 where slack, above 0 at a maximum, below at a minimum."),
    M("conflicts", MAP,
      "What contradicted in that step, each pair and spring once, of the first 1,024 rows of the proof: kind (n) uint8 (0 "
      "vertex-triangle, 1 edge-edge, 2 maximum and 3 minimum of strain, 4 a joint), bodies (n, 2) and features (n, 2) int32 (of a joint: a body and its place in constraints, "
      "-1; of a strain limit: the body and "
      "its spring, -1), key (n) uint64."),
    M("joints", MAP,
      "Attachments, ball joints, hinges and tendons over the last step: constraint (j) int32 (its place in constraints), k"
      "ind (j) uint8 (0 attach, 1 ball, 2 hinge, 3 tendon), position (j, 3) m of its first point, force (j, 3) N on that point,"
      " torque (j, 3) N m (of a hinge, on its first body about position), tension (j) N (of a tendon; else the size of force), gap (j) m."),
    M("diagnostics", MAP, "Every step field of that step."),
};

static const qpc_field_spec control_params[] = {
    WORLD_PARAM,
    N("control", MAP, 0, 0,
      "Any of remove, forces, clear_forces, targets, motions, parameters (docs/scene.md, Control)."),
};
static const qpc_field_spec control_results[] = {
    R("step", INT, "The step after which it applies."),
    R("accepted", BOOL, "true."),
};
static const qpc_field_spec cancel_results[] = {
    R("cancelled", BOOL, "A batch of steps was running or waiting and is being stopped."),
};

static const qpc_field_spec subscribe_params[] = {
    WORLD_PARAM,
    P("every", INT, 1, 1e9, "Send every so many steps; default 1."),
    P("fields", LIST, 0, 0, "As in world.state, of the same list; default [\"positions\"]."),
    PRECISION_PARAM,
    P("credit", INT, 0, 1e9,
      "Frames the server may send before world.credit grants more; 0, the default, is no bound by "
      "count."),
    WORDS("policy", "drop-oldest|drop-newest|latest|close",
          "What happens to frames when the reader is slow (below); default latest."),
    P("max_queue", INT, 1, 4096, "Frames that may wait; default 64. latest keeps one."),
};
static const qpc_field_spec subscribe_results[] = {
    R("subscription", UINT, "Its number within this connection."),
    R("node_count", INT, "Rows of the node arrays."),
    BODIES_RESULT,
};
static const qpc_field_spec credit_params[] = {
    N("subscription", UINT, 0, 0, "Its number."),
    N("add", INT, 1, 1e9, "Frames to grant."),
};
static const qpc_field_spec credit_results[] = {
    R("credit", INT, "Frames that may be sent now."),
};
static const qpc_field_spec unsubscribe_params[] = {
    N("subscription", UINT, 0, 0, "Its number."),
};
static const qpc_field_spec unsubscribe_results[] = {
    R("sent", UINT, "Frames sent in all."),
    R("dropped", UINT, "Frames dropped in all."),
};

static const qpc_field_spec run_list_results[] = {
    R("runs", LIST,
      "Maps {run, world, name, state, path, steps, frames, bytes, created, scene_hash}; state is "
      "recording, closed, failed (not all could be written) or crashed."),
};
static const qpc_field_spec run_param[] = {RUN_PARAM};
static const qpc_field_spec run_describe_results[] = {
    R("scene", MAP, "The canonical scene."),
    R("versions", MAP, "Program, libraries and kernels that made the run."),
    R("run", STR, "Id of the run."),
    R("world", UINT, "Id of the world it is of."),
    R("name", STR, "The label."),
    R("state", STR, "recording, closed, failed (not all could be written) or crashed."),
    BODIES_RESULT,
    R("steps", INT, "Steps recorded."),
    R("frames", INT, "Frames recorded."),
    R("path", STR, "The run file, on the server."),
    R("first_step", INT, "Step of the first frame."),
    R("last_step", INT, "Step of the last frame."),
    R("dt", REAL, "Length of a step at the start, s."),
    R("scene_hash", UINT, "Hash of the canonical scene."),
    R("start_hash", UINT, "State hash before the first step."),
    R("steps_proven", INT, "Steps recorded as proven (step field proven)."),
    R("steps_not_proven", INT, "Steps recorded as not proven: a broken promise."),
    R("steps_unknown", INT,
      "Steps of which the file does not say it: no diagnostics, dropped, or written before there was such a field."),
};
static const qpc_field_spec frames_params[] = {
    RUN_PARAM,
    P("from", INT, 0, STEPS_MAX, "First step; default 0."),
    P("to", INT, 0, STEPS_MAX, "Last step; default the last recorded."),
    P("limit", INT, 1, 100000, "At most so many frames in one reply; default 100."),
    P("body", ANY, 0, 0, "Only this body, by name or index; default all."),
    PRECISION_PARAM,
};
static const qpc_field_spec frames_results[] = {
    R("frames", LIST, "Maps {step, time, hash, positions}; hash after the step, positions m, (nodes, 3)."),
    R("next", INT, "Where to go on with from, or nil at the end."),
    BODIES_RESULT,
};
static const qpc_field_spec details_params[] = {
    RUN_PARAM,
    N("step", INT, 0, STEPS_MAX, "Which step."),
    P("fields", LIST, 0, 0,
      "Which of \"contacts\", \"reactions\", \"limit_forces\", \"conflicts\", \"joints\"; default all."),
};
static const qpc_field_spec details_results[] = {
    R("step", INT, "That step."),
    M("contacts", MAP, "As in world.step."),
    M("reactions", MAP, "Forces of fixed points on their nodes: body (f) and node (f), in its body, int32, force (f, 3) N."),
    M("limit_forces", MAP,
      "Strain limits that hold: body (s) and spring (s), in its body, int32, force (s) N: above 0 at a maximum, below at a "
      "minimum."),
    M("conflicts", MAP, "As in world.state: kind, bodies, features, key."),
    M("joints", MAP, "As in world.state: constraint, kind, position, force, torque, tension, gap."),
};
static const qpc_field_spec events_params[] = {
    RUN_PARAM,
    P("from", INT, 0, STEPS_MAX, "First step; default 0."),
    P("to", INT, 0, STEPS_MAX, "Last step; default the last recorded."),
    P("limit", INT, 1, 100000, "At most so many, or somewhat more of the last step, in one reply; default 1000."),
};
static const qpc_field_spec events_results[] = {
    R("events", LIST, "Maps {step, kind, subject, message}, in order; subject is empty if it has none."),
    R("next", INT, "Where to go on with from, or nil at the end."),
};
static const qpc_field_spec diagnostics_params[] = {
    RUN_PARAM,
    P("from", INT, 0, STEPS_MAX, "First step; default 0."),
    P("to", INT, 0, STEPS_MAX, "Last step; default the last recorded."),
    P("limit", INT, 1, 1000000, "At most so many steps in one reply; default 1000."),
    P("fields", LIST, 0, 0, "Names of step fields; default all."),
};
static const qpc_field_spec diagnostics_results[] = {
    R("columns", MAP, "Step field to an array with one element a step, float64 or int64."),
    R("next", INT, "Where to go on with from, or nil at the end."),
};

static const qpc_field_spec stats_results[] = {
    R("uptime_s", REAL, "s since the start."),
    R("version", STR, "Version of the server."),
    R("draining", BOOL, "It is being ended in order."),
    R("sessions", INT, "Open connections."),
    R("sessions_max", INT, "Connections that may be open."),
    R("sessions_bulk", INT, "Open connections that said in hello that they are bulk ones."),
    R("in_flight", INT, "Requests that wait for a worker or are with one."),
    R("worlds", INT, "Live worlds."),
    R("requests", UINT, "Requests and notifications since the start."),
    R("errors", UINT, "Error replies and error notifications."),
    R("malformed", UINT, "Messages that were not MessagePack-RPC or beyond a limit."),
    R("bytes_in", UINT, "Bytes received."),
    R("bytes_out", UINT, "Bytes sent."),
    R("sessions_opened", UINT, "Connections accepted since the start."),
    R("sessions_refused", UINT, "Connections closed at once: too many, or no descriptor left."),
    R("sessions_slow", UINT, "Connections closed because their reader was too slow."),
    R("steps", UINT, "Steps of all worlds since the start."),
    R("steps_failed", UINT, "Steps that failed."),
    R("steps_not_proven", UINT, "Steps whose motion was not proven to be free of contact: a broken promise."),
    R("frames_sent", UINT, "Frames sent to subscribers."),
    R("frames_dropped", UINT, "Frames that subscribers lost by their policy, so far."),
    R("worlds_created", UINT, "Worlds created."),
    R("storage", MAP,
      "queue (bytes) and queued_records waiting for the writer, high_water (most records that waited), open_runs, "
      "failed_runs, written_frames, written_records, written_bytes, commits, dropped, errors, last_error."),
    R("workers", MAP,
      "count, busy, ready (worlds waiting for a worker) and ready_high_water, tasks done, sleeps."),
    R("memory", MAP,
      "Bytes: resident, worlds, meshes, queued for readers, frames_held for subscribers, input not worked on."),
    R("worlds_detail", LIST, "One map a world: world, name, step, steps_per_s, memory_bytes, busy."),
};
static const qpc_field_spec drain_results[] = {
    R("draining", BOOL, "true."),
};

#define PARAMS(p) .params = (p), .param_count = (int32_t)(sizeof(p) / sizeof(p)[0])
#define RESULTS(r) .results = (r), .result_count = (int32_t)(sizeof(r) / sizeof(r)[0])

// name_HELLO and so on: the list in the header is the only place where a name is written.
#define QPC_METHOD_NAME(id, name) static const char name_##id[] = name;
QPC_METHOD_LIST(QPC_METHOD_NAME)
#undef QPC_METHOD_NAME
#define METHOD(id, ...) [QPC_METHOD_##id] = {.name = name_##id, __VA_ARGS__}

// clang-format off
static const qpc_method_spec methods[QPC_METHOD_COUNT] = {
    METHOD(HELLO,
           .doc = "Says who is calling and learns the server's limits. Optional on loopback and "
                  "on Unix sockets; elsewhere it must come first and carry the token.",
           PARAMS(hello_params), RESULTS(hello_results),
           .errors = MAY(UNSUPPORTED)),
    METHOD(RPC_DESCRIBE,
           .doc = "The table of methods, errors and step fields that this page is made from.",
           RESULTS(describe_results)),
    METHOD(MESH_UPLOAD,
           .doc = "Stores a mesh under the SHA-256 of its canonical bytes; the same mesh again "
                  "costs nothing. Either whole (vertices and elements) or in chunks of its "
                  "canonical bytes (sha256, size, offset, data), in order. A wrong hash at the "
                  "end is INVALID and nothing is kept.",
           PARAMS(upload_params), RESULTS(upload_results), .bulk = true,
           .errors = MAY(LIMIT) | MAY(STATE) | MAY(IO) | MAY(FULL)),
    METHOD(MESH_LIST,
           .doc = "The stored meshes.",
           RESULTS(mesh_list_results),
           .errors = MAY(IO)),
    METHOD(MESH_GET,
           .doc = "A stored mesh as arrays.",
           PARAMS(mesh_param), RESULTS(mesh_get_results), .bulk = true,
           .errors = MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(MESH_DELETE,
           .doc = "Forgets a stored mesh. STATE while a live world uses it; run files keep their "
                  "own copy.",
           PARAMS(mesh_param), RESULTS(deleted_results),
           .errors = MAY(NOT_FOUND) | MAY(STATE) | MAY(IO)),
    METHOD(MESH_CHECK,
           .doc = "Pre-flight of a stored mesh: orientation, closedness, non-manifold edges, "
                  "duplicate and unreferenced vertices, triangles without area, self-intersections "
                  "(by exact signs), sizes out of proportion. Errors apart from warnings, each with "
                  "a total and the first elements. Vertices at exactly the same position count as "
                  "one. docs/mesh-files.md lists the findings.",
           PARAMS(mesh_check_params), RESULTS(mesh_check_results),
           .errors = MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(SCENE_CHECK,
           .doc = "Pre-flight of a scene: mesh.check of the mesh of every body for what the body "
                  "is, what world.create would say, and masses that differ too much. No world is "
                  "made, and a scene that cannot be made one is a result, not an error.",
           PARAMS(scene_check_params), RESULTS(scene_check_results),
           .errors = MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(WORLD_CREATE,
           .doc = "Makes a world from a scene. It belongs to the server and lives until "
                  "world.destroy, its idle limit, or shutdown. Bodies that intersect are INVALID, "
                  "with the first pairs in data and where they meet in the message, unless the scene's start is "
                  "\"push-out\" and they can be separated.",
           PARAMS(create_params), RESULTS(create_results),
           .errors = MAY(NOT_FOUND) | MAY(LIMIT) | MAY(STATE) | MAY(NUMERIC) | MAY(IO) | MAY(FULL)),
    METHOD(WORLD_LIST,
           .doc = "The live worlds.",
           RESULTS(world_list_results)),
    METHOD(WORLD_DESCRIBE,
           .doc = "What a world is made of and where it is.",
           PARAMS(world_param), RESULTS(world_describe_results),
           .errors = MAY(NOT_FOUND)),
    METHOD(WORLD_DESTROY,
           .doc = "Ends a world. Everything recorded is in its run file when the answer comes, and the "
                  "file is closed (run.list: state `closed`) and stays; while another request reads the run, when that is done.",
           PARAMS(world_param), RESULTS(destroy_results),
           .errors = MAY(NOT_FOUND) | MAY(BUSY) | MAY(STATE)),
    METHOD(WORLD_STEP,
           .doc = "Advances a world by n steps and answers when they are done. Requests of one "
                  "world run in the order they came; different worlds run in parallel. Cancel, "
                  "deadline and drain act between steps, and a step that fails ends the batch: "
                  "reached and status say how far it came.",
           PARAMS(step_params), RESULTS(step_results),
           .errors = MAY(NOT_FOUND) | MAY(BUSY) | MAY(STATE) | MAY(LIMIT) | MAY(NUMERIC) |
                     MAY(CANCELLED) | MAY(DEADLINE) | MAY(IO) | MAY(FULL)),
    METHOD(WORLD_STATE,
           .doc = "The state after the last finished step. Never waits: while a batch runs it "
                  "answers from the last published state.",
           PARAMS(state_params), RESULTS(state_results),
           .errors = MAY(NOT_FOUND)),
    METHOD(WORLD_CONTROL,
           .doc = "Changes what drives a world, in order with its steps. All of it or, after an "
                  "error, nothing. May be sent as a notification.",
           PARAMS(control_params), RESULTS(control_results), .notification = true, .errors =
           MAY(NOT_FOUND) | MAY(BUSY) | MAY(STATE)),
    METHOD(WORLD_CANCEL,
           .doc = "Stops the batches of steps of a world between two steps; each is answered with "
                  "status cancelled.",
           PARAMS(world_param), RESULTS(cancel_results),
           .errors = MAY(NOT_FOUND)),
    METHOD(WORLD_SUBSCRIBE,
           .doc = "Asks for frames as notifications [2, \"frame\", [{subscription, world, step, "
                  "time, hash, dropped, ...}]] with the fields asked for.",
           PARAMS(subscribe_params), RESULTS(subscribe_results),
           .errors = MAY(NOT_FOUND) | MAY(LIMIT)),
    METHOD(WORLD_CREDIT,
           .doc = "Grants a subscription more frames. May be sent as a notification.",
           PARAMS(credit_params), RESULTS(credit_results), .notification = true, .errors =
           MAY(NOT_FOUND)),
    METHOD(WORLD_UNSUBSCRIBE,
           .doc = "Ends a subscription. No frame of it follows the reply.",
           PARAMS(unsubscribe_params), RESULTS(unsubscribe_results),
           .errors = MAY(NOT_FOUND)),
    METHOD(RUN_LIST,
           .doc = "The recorded runs, the newest first.",
           RESULTS(run_list_results),
           .errors = MAY(IO)),
    METHOD(RUN_DESCRIBE,
           .doc = "What a run file holds.",
           PARAMS(run_param), RESULTS(run_describe_results),
           .errors = MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(RUN_FRAMES,
           .doc = "Stored frames of a range of steps, page by page; also while the run is being "
                  "recorded.",
           PARAMS(frames_params), RESULTS(frames_results), .bulk = true,
           .errors = MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(RUN_DIAGNOSTICS,
           .doc = "Step fields of a range of steps as columns, page by page.",
           PARAMS(diagnostics_params), RESULTS(diagnostics_results), .bulk = true, .errors =
           MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(RUN_DETAILS,
           .doc = "What a step left besides its figures and its frame: contacts, reactions of fixed points, forces of strain "
                  "limits and of joints, and what contradicted. Empty where nothing was recorded; NOT_FOUND for a step that the run does not have.",
           PARAMS(details_params), RESULTS(details_results), .bulk = true, .errors =
           MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(RUN_EVENTS,
           .doc = "What happened in a run on the way, of a range of steps (docs/storage.md, events).",
           PARAMS(events_params), RESULTS(events_results), .errors =
           MAY(NOT_FOUND) | MAY(IO) | MAY(CORRUPT)),
    METHOD(SERVER_STATS,
           .doc = "Counters of the server.",
           RESULTS(stats_results)),
    METHOD(SERVER_DRAIN,
           .doc = "Ends the server in order, as SIGTERM does: running steps finish, the writer "
                  "empties, exit code 0.",
           RESULTS(drain_results)),
};
// clang-format on

static const char *const names[QPC_METHOD_COUNT + 1] = {
#define QPC_METHOD_NAME(id, name) name_##id,
    QPC_METHOD_LIST(QPC_METHOD_NAME)
#undef QPC_METHOD_NAME
};

qpc_method qpc_method_find(const char *name) {
    for (int i = 0; i < QPC_METHOD_COUNT; i++)
        if (strcmp(name, names[i]) == 0) return (qpc_method)i;
    return QPC_METHOD_COUNT;
}

const char *qpc_method_nearest(const char *name) {
    return qpc_nearest(name, strlen(name), names);
}

qpc_status qpc_method_resolve(const char *name, bool known_text, qpc_method *ret, qpc_error *err) {
    qpc_method method = known_text ? qpc_method_find(name) : QPC_METHOD_COUNT;
    if (method != QPC_METHOD_COUNT) {
        *ret = method;
        return QPC_OK;
    }
    const char *nearest = qpc_method_nearest(name);
    if (!known_text)
        return qpc_fail(err, QPC_ERR_UNKNOWN_METHOD,
                        "no method \"%s\": names are str of printable UTF-8, shorter than 64 bytes",
                        name);
    if (nearest != NULL)
        return qpc_fail(err, QPC_ERR_UNKNOWN_METHOD,
                        "no method \"%s\"; the nearest known one is \"%s\"", name, nearest);
    return qpc_fail(err, QPC_ERR_UNKNOWN_METHOD, "no method \"%s\"; rpc.describe lists them", name);
}

const qpc_method_spec *qpc_method_get(qpc_method method) {
    QPC_ASSERT((int)method >= 0 && method < QPC_METHOD_COUNT);
    return &methods[method];
}

const char *qpc_field_type_name(qpc_field_type type) {
    static const char *const type_names[] = {
        [QPC_FIELD_BOOL] = "bool",    [QPC_FIELD_INT] = "int",   [QPC_FIELD_UINT] = "uint",
        [QPC_FIELD_REAL] = "real",    [QPC_FIELD_STR] = "str",   [QPC_FIELD_BIN] = "bin",
        [QPC_FIELD_TENSOR] = "array", [QPC_FIELD_LIST] = "list", [QPC_FIELD_MAP] = "map",
        [QPC_FIELD_ANY] = "any",
    };
    return type_names[type];
}

// ---- checks ----

enum { FIELDS_MAX = 32 };

static bool has_range(const qpc_field_spec *f) {
    return f->low != 0 || f->high != 0;
}

/// Is text one of the words of "a|b|c"?
static bool is_one_of(const char *words, const char *text, size_t size) {
    for (const char *word = words; *word != '\0';) {
        size_t length = strcspn(word, "|");
        if (length == size && memcmp(word, text, size) == 0) return true;
        word += length + (word[length] == '|' ? 1 : 0);
    }
    return false;
}

static qpc_status check_str(const qpc_field_spec *f, const qpc_value *v, qpc_error *err) {
    char shown[48];
    if (f->high > 0 && (double)v->str.size > f->high)
        return qpc_fail_at(err, QPC_ERR_INVALID, f->name, "text of %zu bytes; want at most %.0f",
                           v->str.size, f->high);
    if (v->str.size > 0 && memchr(v->str.bytes, 0, v->str.size) != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, f->name, "a NUL byte inside; want text without");
    if (f->one_of == NULL || is_one_of(f->one_of, v->str.bytes, v->str.size)) return QPC_OK;
    qpc_utf8_clean(v->str.bytes, v->str.size, shown, sizeof shown);
    return qpc_fail_at(err, QPC_ERR_INVALID, f->name, "got \"%s\"; want one of %s", shown,
                       f->one_of);
}

static qpc_status wrong_type(const qpc_field_spec *f, const qpc_value *v, qpc_error *err) {
    static const char *const kinds[] = {
        [QPC_NIL] = "nil",         [QPC_BOOL] = "a boolean",
        [QPC_INT] = "an integer",  [QPC_REAL] = "a real number",
        [QPC_STR] = "text",        [QPC_BIN] = "bytes (bin)",
        [QPC_LIST] = "a list",     [QPC_MAP] = "a map",
        [QPC_TENSOR] = "an array",
    };
    static const char *const wanted[] = {
        [QPC_FIELD_BOOL] = "true or false",
        [QPC_FIELD_INT] = "an integer",
        [QPC_FIELD_UINT] = "an integer from 0",
        [QPC_FIELD_REAL] = "a number",
        [QPC_FIELD_STR] = "text",
        [QPC_FIELD_BIN] = "bytes (bin)",
        [QPC_FIELD_TENSOR] = "an array {nd, type, kind, shape, data}, or nested lists of numbers",
        [QPC_FIELD_LIST] = "a list",
        [QPC_FIELD_MAP] = "a map",
        [QPC_FIELD_ANY] = "anything",
    };
    return qpc_fail_at(err, QPC_ERR_INVALID, f->name, "got %s; want %s", kinds[v->kind],
                       wanted[f->type]);
}

static qpc_status check_field(const qpc_field_spec *f, const qpc_value *v, qpc_error *err) {
    bool ranged = has_range(f), b = false, right = true;
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    switch (f->type) {
    case QPC_FIELD_BOOL:
        return qpc_read_bool(v, f->name, &b, err);
    case QPC_FIELD_INT:
        return qpc_read_int(v, f->name, ranged ? (int64_t)f->low : INT64_MIN,
                            ranged ? (int64_t)f->high : INT64_MAX, &i, err);
    case QPC_FIELD_UINT:
        if (ranged) return qpc_read_int(v, f->name, (int64_t)f->low, (int64_t)f->high, &i, err);
        return qpc_read_uint(v, f->name, &u, err);
    case QPC_FIELD_REAL:
        return qpc_read_real(v, f->name, ranged ? f->low : -DBL_MAX, ranged ? f->high : DBL_MAX, &d,
                             err);
    case QPC_FIELD_STR:
        if (v->kind == QPC_STR) return check_str(f, v, err);
        right = false;
        break;
    case QPC_FIELD_BIN:
        right = v->kind == QPC_BIN;
        break;
    case QPC_FIELD_TENSOR:
        right = v->kind == QPC_TENSOR || v->kind == QPC_LIST;
        break;
    case QPC_FIELD_LIST:
        right = v->kind == QPC_LIST;
        break;
    case QPC_FIELD_MAP:
        right = v->kind == QPC_MAP;
        break;
    case QPC_FIELD_ANY:
        break;
    }
    return right ? QPC_OK : wrong_type(f, v, err);
}

/// nil_allowed: results may be nil where params are left out instead.
static qpc_status check_fields(const char *what, const qpc_field_spec *fields, int32_t count,
                               const qpc_value *map, bool nil_allowed, qpc_error *err) {
    const char *known[FIELDS_MAX + 1];
    QPC_ASSERT(count <= FIELDS_MAX);
    for (int32_t i = 0; i < count; i++) known[i] = fields[i].name;
    known[count] = NULL;
    qpc_status status = qpc_map_check_keys(map, "", known, err);
    for (int32_t i = 0; i < count && status == QPC_OK; i++) {
        const qpc_value *v = qpc_map_get(map, fields[i].name);
        if (v == NULL && fields[i].required)
            return qpc_fail_at(err, QPC_ERR_INVALID, fields[i].name, "%s needs it: %s", what,
                               fields[i].doc);
        if (v == NULL || (nil_allowed && v->kind == QPC_NIL)) continue;
        status = check_field(&fields[i], v, err);
    }
    return status;
}

/// The two forms of mesh.upload do not mix, and each needs all of its own.
static qpc_status check_upload(const qpc_value *params, qpc_error *err) {
    static const char *const whole[] = {"vertices", "elements"};
    static const char *const chunk[] = {"sha256", "size", "offset", "data"};
    const char *any_whole = NULL, *any_chunk = NULL, *missing_whole = NULL, *missing_chunk = NULL;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        *(qpc_map_get(params, whole[i]) != NULL ? &any_whole : &missing_whole) = whole[i];
    for (size_t i = 0; i < sizeof chunk / sizeof chunk[0]; i++)
        *(qpc_map_get(params, chunk[i]) != NULL ? &any_chunk : &missing_chunk) = chunk[i];
    if (any_whole != NULL && any_chunk != NULL)
        return qpc_fail_at(
            err, QPC_ERR_INVALID, any_chunk,
            "belongs to an upload in chunks, %s to a whole one; send one or the other", any_whole);
    if (any_whole == NULL && any_chunk == NULL)
        return qpc_fail(
            err, QPC_ERR_INVALID,
            "mesh.upload needs vertices and elements, or sha256, size, offset and data");
    const char *missing = any_whole != NULL ? missing_whole : missing_chunk;
    if (missing != NULL)
        return qpc_fail_at(err, QPC_ERR_INVALID, missing, "it is missing; %s upload needs it",
                           any_whole != NULL ? "a whole" : "a chunked");
    return QPC_OK;
}

qpc_status qpc_method_check_params(qpc_method method, const qpc_value *params, qpc_error *err) {
    const qpc_method_spec *m = qpc_method_get(method);
    qpc_status status = check_fields(m->name, m->params, m->param_count, params, false, err);
    if (status == QPC_OK && method == QPC_METHOD_MESH_UPLOAD) status = check_upload(params, err);
    return status;
}

qpc_status qpc_method_check_results(qpc_method method, const qpc_value *result, qpc_error *err) {
    const qpc_method_spec *m = qpc_method_get(method);
    return check_fields(m->name, m->results, m->result_count, result, true, err);
}

// ---- rpc.describe ----

static void put(qpc_value *map, const char *key, qpc_value item, qpc_status *status) {
    if (*status == QPC_OK)
        *status = qpc_map_set(map, key, item);
    else
        qpc_value_fini(&item);
}

static void push(qpc_value *list, qpc_value item, qpc_status *status) {
    if (*status == QPC_OK)
        *status = qpc_list_push(list, item);
    else
        qpc_value_fini(&item);
}

static qpc_value describe_fields(const qpc_field_spec *fields, int32_t count, qpc_status *status) {
    qpc_value list = qpc_list();
    for (int32_t i = 0; i < count; i++) {
        const qpc_field_spec *f = &fields[i];
        qpc_value map = qpc_map();
        put(&map, "name", qpc_text_borrow(f->name), status);
        put(&map, "type", qpc_text_borrow(qpc_field_type_name(f->type)), status);
        put(&map, "required", qpc_bool(f->required), status);
        put(&map, "doc", qpc_text_borrow(f->doc), status);
        if (f->type == QPC_FIELD_STR && f->high > 0)
            put(&map, "max_bytes", qpc_int((int64_t)f->high), status);
        if (f->type != QPC_FIELD_STR && has_range(f)) {
            bool real = f->type == QPC_FIELD_REAL;
            put(&map, "min", real ? qpc_real(f->low) : qpc_int((int64_t)f->low), status);
            put(&map, "max", real ? qpc_real(f->high) : qpc_int((int64_t)f->high), status);
        }
        if (f->one_of != NULL) {
            qpc_value words = qpc_list();
            for (const char *word = f->one_of; *word != '\0';) {
                size_t length = strcspn(word, "|");
                push(&words, qpc_str_borrow(word, length), status);
                word += length + (word[length] == '|' ? 1 : 0);
            }
            put(&map, "one_of", words, status);
        }
        push(&list, map, status);
    }
    return list;
}

static qpc_value describe_method(const qpc_method_spec *m, qpc_status *status) {
    qpc_value map = qpc_map(), errors = qpc_list();
    put(&map, "name", qpc_text_borrow(m->name), status);
    put(&map, "doc", qpc_text_borrow(m->doc), status);
    put(&map, "bulk", qpc_bool(m->bulk), status);
    put(&map, "notification", qpc_bool(m->notification), status);
    put(&map, "params", describe_fields(m->params, m->param_count, status), status);
    put(&map, "results", describe_fields(m->results, m->result_count, status), status);
#define QPC_STATUS_NAMED(name, code, text)                                                         \
    if (((m->errors | QPC_METHOD_ANY_ERRORS) >> (code)&1U) != 0)                                   \
        push(&errors, qpc_text_borrow(#name), status);
    QPC_STATUS_LIST(QPC_STATUS_NAMED)
#undef QPC_STATUS_NAMED
    put(&map, "errors", errors, status);
    return map;
}

qpc_status qpc_methods_describe(qpc_value *ret) {
    static const struct {
        int code;
        const char *name, *text;
    } errors[] = {
#define QPC_STATUS_ROW(name, code, text) {code, #name, text},
        QPC_STATUS_LIST(QPC_STATUS_ROW)
#undef QPC_STATUS_ROW
    };
    qpc_status status = QPC_OK;
    qpc_value all = qpc_map(), method_list = qpc_list(), error_list = qpc_list();
    for (int i = 0; i < QPC_METHOD_COUNT; i++)
        push(&method_list, describe_method(&methods[i], &status), &status);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        qpc_value map = qpc_map();
        put(&map, "code", qpc_int(errors[i].code), &status);
        put(&map, "name", qpc_text_borrow(errors[i].name), &status);
        put(&map, "doc", qpc_text_borrow(errors[i].text), &status);
        push(&error_list, map, &status);
    }
    put(&all, "methods", method_list, &status);
    put(&all, "errors", error_list, &status);
    if (status != QPC_OK) qpc_value_fini(&all);
    *ret = all;
    return status;
}
