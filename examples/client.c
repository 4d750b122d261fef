/// libqpc in a program of one's own, C or C++.
///
///     cc client.c $(pkg-config --cflags --libs libqpc) -o client && ./client 127.0.0.1:7447
///
/// Uploads a mesh, makes a world of a ball above it, steps, watches frames, and looks at a step
/// that the server refuses.
#include <qpc.h>

#include <stdio.h>
#include <string.h>

static const double corners[12] = {-2, 0, -2, -2, 0, 2, 2, 0, 2, 2, 0, -2};
static const int32_t triangles[6] = {0, 1, 2, 0, 2, 3};

static int failed(const char *what, const qpc_error *err) {
    fprintf(stderr, "%s: %s: %s\n", what, qpc_status_name(err->status), err->message);
    return 1;
}

/// A scene as text, with the mesh's hash put in.
static qpc_status make_scene(const char *sha256, qpc_value *ret, qpc_error *err) {
    char text[1000];
    int size =
        snprintf(text, sizeof text,
                 "{\"dt\": 0.005, \"gravity\": [0, -10, 0], \"bodies\": ["
                 "{\"name\": \"floor\", \"kind\": \"static\", \"mesh\": {\"sha256\": \"%s\"}},"
                 "{\"name\": \"ball\", \"kind\": \"cable\", \"nodes\": [[0.3, 0.5, 0.1]],"
                 " \"mass\": 1, \"radius\": 0.1}]}",
                 sha256);
    return qpc_json_parse(text, (size_t)size, ret, err);
}

static int talk(qpc_client *client) {
    qpc_error err;
    memset(&err, 0, sizeof err);
    qpc_server_info info;
    if (qpc_client_hello(client, "example", NULL, NULL, &info, &err) != QPC_OK)
        return failed("hello", &err);
    printf("%s %s, protocol %d\n", info.server, info.version, (int)info.protocol);

    qpc_mesh_source mesh;
    memset(&mesh, 0, sizeof mesh);
    mesh.name = "floor";
    mesh.vertices = corners;
    mesh.vertex_count = 4;
    mesh.elements = triangles;
    mesh.element_count = 2;
    mesh.nodes_per_element = 3;
    qpc_mesh_receipt receipt;
    if (qpc_client_mesh_upload(client, &mesh, &receipt, &err) != QPC_OK)
        return failed("mesh.upload", &err);
    qpc_message_fini(&receipt.message);

    qpc_value scene;
    if (make_scene(receipt.sha256, &scene, &err) != QPC_OK) return failed("scene", &err);
    qpc_world_receipt world;
    qpc_status status = qpc_client_world_create(client, &scene, "example", false, &world, &err);
    qpc_value_fini(&scene);
    if (status != QPC_OK) return failed("world.create", &err);
    printf("world %llu, run %s\n", (unsigned long long)world.world, world.run);
    qpc_message_fini(&world.message);

    // Frames of every 50th step come while the step below is being made.
    uint64_t subscription;
    qpc_subscribe_request subscribe;
    memset(&subscribe, 0, sizeof subscribe);
    subscribe.every = 50;
    subscribe.float64 = true;
    subscribe.policy = "drop-newest";
    if (qpc_client_subscribe(client, world.world, &subscribe, &subscription, NULL, &err) != QPC_OK)
        return failed("world.subscribe", &err);

    qpc_step_request request = qpc_step_request_default();
    request.n = 200;
    request.expect_step = 0;
    request.key = "the first 200"; // asked again with this key, nothing is stepped twice
    request.positions = true;
    request.float64 = true;
    qpc_step_reply step;
    if (qpc_client_world_step(client, world.world, &request, &step, &err) != QPC_OK)
        return failed("world.step", &err);
    double y;
    memcpy(&y, (const char *)step.positions->data + 8, sizeof y); // x, y, z of the only node
    printf("%s at step %lld, %.3f s: y = %.4f m\n", step.status, (long long)step.reached, step.time,
           y);
    qpc_message_fini(&step.message);

    qpc_frame frame;
    while (qpc_client_next_frame(client, subscription, 100, &frame, &err) == QPC_OK &&
           frame.message.kind != QPC_MESSAGE_NONE) {
        memcpy(&y, (const char *)frame.positions->data + 8, sizeof y);
        printf("frame of step %lld: y = %.4f m\n", (long long)frame.step, y);
        qpc_message_fini(&frame.message);
    }

    // An error of the server has a code, a message and data.
    request.key = NULL;
    if (qpc_client_world_step(client, world.world, &request, &step, &err) == QPC_ERR_STATE) {
        int64_t at = 0;
        qpc_read_int(qpc_map_get(qpc_client_error_data(client), "step"), "step", 0, INT64_MAX, &at,
                     NULL);
        printf("refused: %s (the world is at step %lld)\n", err.message, (long long)at);
    }
    if (qpc_client_world_destroy(client, world.world, &err) != QPC_OK)
        return failed("world.destroy", &err);
    return 0;
}

int main(int argc, char **argv) {
    qpc_client *client;
    qpc_error err;
    memset(&err, 0, sizeof err);
    const char *address = argc > 1 ? argv[1] : QPC_DEFAULT_ADDRESS;
    if (qpc_client_connect(address, NULL, &client, &err) != QPC_OK) return failed(address, &err);
    int code = talk(client);
    qpc_client_close(client);
    return code;
}
