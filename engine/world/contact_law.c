/// Reading `contacts` of a scene into the table of pairs of materials.
#include "engine/world/contact_law.h"

#include "engine/world/scene_read.h"

#include <stdio.h>
#include <string.h>

static const char *const CONTACTS_KEYS[] = {"friction", "restitution", "pairs", NULL};
static const char *const PAIR_KEYS[] = {"materials", "friction", "restitution", NULL};
static const double FRICTION_MOST = 100.0;

void qpc_material_table_init(qpc_material_table *table) {
    memset(table, 0, sizeof *table);
    table->count = 1;
}

qpc_status qpc_material_find(qpc_material_table *table, const char *name, const char *where, int32_t *ret,
                             qpc_error *err) {
    for (int32_t i = 0; i < table->count; i++)
        if (strcmp(table->name[i], name) == 0) {
            *ret = i;
            return QPC_OK;
        }
    if (table->count == QPC_MATERIALS_MAX)
        return qpc_fail_at(err, QPC_ERR_LIMIT, where, "more than %d materials", QPC_MATERIALS_MAX - 1);
    (void)snprintf(table->name[table->count], QPC_MATERIAL_NAME, "%s", name);
    *ret = table->count++;
    return QPC_OK;
}

static qpc_status read_law(const qpc_value *map, const char *where, qpc_contact_law *law, qpc_error *err) {
    char path[QPC_PATH_SIZE];
    const qpc_value *v;
    qpc_status st = QPC_OK;
    qpc_path_join(path, where, "friction");
    if ((v = qpc_map_get(map, "friction")) != NULL) st = qpc_read_real(v, path, 0.0, FRICTION_MOST, &law->friction, err);
    qpc_path_join(path, where, "restitution");
    if (st == QPC_OK && (v = qpc_map_get(map, "restitution")) != NULL)
        st = qpc_read_real(v, path, 0.0, 1.0, &law->restitution, err);
    return st;
}

/// A name in a pair: one that a body has.
static qpc_status read_name(const qpc_value *v, const char *where, const qpc_material_table *table, int32_t *ret,
                            qpc_error *err) {
    const char *known[QPC_MATERIALS_MAX + 1] = {NULL};
    for (int32_t i = 1; i < table->count; i++) known[i - 1] = table->name[i];
    if (table->count == 1)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "no body of the scene names a material");
    qpc_status st = qpc_read_word(v, where, known, ret, err);
    if (st == QPC_OK) (*ret)++;
    return st;
}

static qpc_status read_pair(const qpc_value *map, const char *where, qpc_material_table *table, qpc_contact_law all,
                            bool given[QPC_MATERIALS_MAX][QPC_MATERIALS_MAX], qpc_error *err) {
    char path[QPC_PATH_SIZE];
    int32_t side[2];
    if (map->kind != QPC_MAP)
        return qpc_fail_at(err, QPC_ERR_INVALID, where, "wanted a map with two materials and a law");
    qpc_status st = qpc_map_check_keys(map, where, PAIR_KEYS, err);
    if (st != QPC_OK) return st;
    const qpc_value *names = qpc_map_get(map, "materials");
    qpc_path_join(path, where, "materials");
    if (names == NULL || names->kind != QPC_LIST || names->list.count != 2)
        return qpc_fail_at(err, QPC_ERR_INVALID, path, "wanted two names, such as [\"rope\", \"steel\"]");
    for (int k = 0; k < 2; k++) {
        char at[QPC_PATH_SIZE + 8];
        (void)snprintf(at, sizeof at, "%s[%d]", path, k);
        if ((st = read_name(&names->list.items[k], at, table, &side[k], err)) != QPC_OK) return st;
    }
    if (given[side[0]][side[1]])
        return qpc_fail_at(err, QPC_ERR_EXISTS, path, "\"%s\" and \"%s\" have a law already", table->name[side[0]],
                           table->name[side[1]]);
    if ((st = read_law(map, where, &all, err)) != QPC_OK) return st;
    given[side[0]][side[1]] = given[side[1]][side[0]] = true;
    table->law[side[0]][side[1]] = table->law[side[1]][side[0]] = all;
    return QPC_OK;
}

qpc_status qpc_contact_laws_read(const qpc_value *map, qpc_material_table *table, qpc_error *err) {
    bool given[QPC_MATERIALS_MAX][QPC_MATERIALS_MAX] = {{false}};
    qpc_contact_law all = {0};
    if (map->kind != QPC_MAP) return qpc_fail_at(err, QPC_ERR_INVALID, "contacts", "wanted a map");
    qpc_status st = qpc_map_check_keys(map, "contacts", CONTACTS_KEYS, err);
    if (st == QPC_OK) st = read_law(map, "contacts", &all, err);
    if (st != QPC_OK) return st;
    for (int32_t i = 0; i < table->count; i++)
        for (int32_t k = 0; k < table->count; k++) table->law[i][k] = all;
    const qpc_value *pairs = qpc_map_get(map, "pairs");
    if (pairs == NULL) return QPC_OK;
    if (pairs->kind != QPC_LIST) return qpc_fail_at(err, QPC_ERR_INVALID, "contacts.pairs", "wanted a list of maps");
    for (int32_t i = 0; i < pairs->list.count && st == QPC_OK; i++) {
        char path[QPC_PATH_SIZE];
        (void)snprintf(path, sizeof path, "contacts.pairs[%d]", i);
        st = read_pair(&pairs->list.items[i], path, table, all, given, err);
    }
    return st;
}
