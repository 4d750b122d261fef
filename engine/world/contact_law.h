/// Friction and restitution of pairs of materials, from a scene.
#ifndef QPC_ENGINE_WORLD_CONTACT_LAW_H
#define QPC_ENGINE_WORLD_CONTACT_LAW_H

#include "base/value.h"

#include <stdint.h>

enum { QPC_MATERIALS_MAX = 64, QPC_MATERIAL_NAME = 64 };

typedef struct qpc_contact_law {
    double friction;    // Coulomb coefficient, >= 0
    double restitution; // Newton's, 0 to 1
} qpc_contact_law;

typedef struct qpc_material_table {
    int32_t count;                             // material 0 is that of bodies that name none
    char name[QPC_MATERIALS_MAX][QPC_MATERIAL_NAME];
    qpc_contact_law law[QPC_MATERIALS_MAX][QPC_MATERIALS_MAX]; // symmetric
} qpc_material_table;

void qpc_material_table_init(qpc_material_table *table);
/// Number of a name, new ones being added; QPC_ERR_LIMIT beyond QPC_MATERIALS_MAX.
qpc_status qpc_material_find(qpc_material_table *table, const char *name, const char *where, int32_t *ret,
                             qpc_error *err);
/// The scene's `contacts` map, after all bodies have named their materials: a pair of a name that no
/// body has is refused, with the nearest one.
qpc_status qpc_contact_laws_read(const qpc_value *map, qpc_material_table *table, qpc_error *err);

#endif
