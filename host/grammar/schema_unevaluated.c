/* schema_unevaluated.c - unevaluatedProperties and unevaluatedItems: what no schema says anything about that holds at the place
 * because of theirs. An entry of a list knows which one it came from (by $ref, allOf, a choice), so "because of" is a walk up;
 * what a `not` makes says nothing. What cannot be told so is refused by name. */
#include "grammar/schema.h"

static const char *const names[] = {"unevaluatedProperties", "unevaluatedItems"};

/* What an entry says by the keyword; NULL: nothing that denies anything. */
static const cdz_json *asks(const cdz_json *schema, const char *name)
{
    const cdz_json *v = cdz_json_get(schema, name);
    return v && !(v->type == CDZ_JSON_BOOL && v->boolean) ? v : NULL;
}

bool cdz_schema_came_from(const cdz_schema_list *list, uint32_t i, uint32_t entry)
{
    if (list->at[i].silent) return false;
    while (i != entry && list->at[i].parent) i = list->at[i].parent - 1;
    return i == entry;
}

const cdz_json *cdz_schema_unevaluated(const cdz_schema_list *list, uint32_t entry, const char *name)
{
    const cdz_json *v = asks(list->at[entry].schema, name);
    for (uint32_t i = 0; v && i < list->n; i++)
        if (i != entry && cdz_json_get(list->at[i].schema, name) &&
            cdz_schema_came_from(list, i, entry))
            return NULL;
    return v;
}

const char *cdz_schema_unevaluated_above(const cdz_schema_list *list, uint32_t entry)
{
    for (uint32_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (asks(list->at[i].schema, names[k]) && cdz_schema_came_from(list, entry, i))
                return names[k];
    return NULL;
}

/* Keywords of a schema whose say hangs on more than that it holds. */
static const char *unsure(const cdz_json *schema, bool items)
{
    if (cdz_json_get(schema, "dependentSchemas")) return "beside dependentSchemas";
    if (cdz_json_get(schema, "dependencies")) return "beside dependencies";
    if (cdz_json_get(schema, "if") && !cdz_json_get(schema, "then") && !cdz_json_get(schema, "else"))
        return "beside an if without then and else";
    return items && cdz_json_get(schema, "contains") ? "beside contains" : NULL;
}

static cdz_status check(const cdz_schema *s, const cdz_schema_list *list, uint32_t entry, size_t k)
{
    const cdz_json *v = asks(list->at[entry].schema, names[k]);
    for (uint32_t i = 0; v && i < list->n; i++) {
        if (list->at[i].shared)
            return cdz_schema_refuse(s, v, names[k], "where one schema holds for two reasons");
        const char *why =
            cdz_schema_came_from(list, i, entry) ? unsure(list->at[i].schema, k == 1) : NULL;
        if (why) return cdz_schema_refuse(s, v, names[k], why);
    }
    return CDZ_OK;
}

cdz_status cdz_schema_check_unevaluated(const cdz_schema *s, const cdz_schema_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) CDZ_TRY(check(s, list, i, k));
    return CDZ_OK;
}
