/* verbs_copy.c - copies of a strategy's scores. Their rows are the request's (scratch_scores), so that every verb takes them; a
 * copy that the script no longer holds gives them back for the next one. */
#include <stdlib.h>
#include <string.h>

#include "lua/decoder.h"

enum {
    UNCOLLECTED = 64
}; /* rows that are made before what the script no longer holds is looked for */

/* Rows of the request. Outlives the objects of the script. */
struct cdz_lua_room {
    struct cdz_lua_room *next;
    cdz_scores rows;
    bool taken;
};

static uint32_t rows_taken(const cdz_lua_session *S)
{
    uint32_t n = 0;
    for (const struct cdz_lua_room *r = S->rooms; r; r = r->next)
        n += r->taken ? r->rows.n_rows : 0;
    return n;
}

/* The smallest that is free and large enough; NULL: none. */
static struct cdz_lua_room *free_room(const cdz_lua_session *S, uint32_t n_rows)
{
    struct cdz_lua_room *best = NULL;
    for (struct cdz_lua_room *r = S->rooms; r; r = r->next)
        if (!r->taken && r->rows.n_rows >= n_rows && (!best || r->rows.n_rows < best->rows.n_rows))
            best = r;
    return best;
}

static struct cdz_lua_room *new_room(lua_State *L, uint32_t n_rows)
{
    cdz_lua_session *S = cdz_lua_of(L);
    cdz_scores rows;

    if (n_rows > CDZ_LUA_MAX_SEQS - S->room_rows)
        luaL_error(L, "copy: %I rows are kept; at most %d", (lua_Integer)S->room_rows,
                   CDZ_LUA_MAX_SEQS);
    cdz_lua_try(L, cdz_scratch_scores(cdz_lua_decoder(L), n_rows, &rows));
    struct cdz_lua_room *room = malloc(sizeof *room);
    if (!room) luaL_error(L, "out of memory");
    *room = (struct cdz_lua_room){S->rooms, rows, false};
    S->rooms = room;
    S->room_rows += n_rows;
    return room;
}

/* The collector does not know how large rows are: it is asked when they have doubled. */
static struct cdz_lua_room *find_room(lua_State *L, uint32_t n_rows)
{
    cdz_lua_session *S = cdz_lua_of(L);
    struct cdz_lua_room *room = free_room(S, n_rows);

    if (!room && S->room_rows + n_rows > S->room_limit) {
        lua_gc(L, LUA_GCCOLLECT);
        room = free_room(S, n_rows);
        S->room_limit = UNCOLLECTED + 2 * rows_taken(S);
    }
    return room ? room : new_room(L, n_rows);
}

int cdz_lua_copy_scores(lua_State *L, const cdz_lua_batch *b)
{
    const cdz_scores *from = &b->scores;
    const uint32_t n_vocab = cdz_lua_of(L)->step->request->n_vocab;

    if (from->n_vocab != n_vocab)
        return luaL_error(L,
                          "copy: scores of %I tokens, and the request's vocabulary has %I; "
                          "scores:row(r):copy() keeps a row",
                          (lua_Integer)from->n_vocab, (lua_Integer)n_vocab);
    cdz_lua_charge_elements(L, (size_t)from->n_rows * n_vocab);
    cdz_lua_batch *copy = cdz_lua_push_batch(L, from, true);
    copy->scores.n_rows = 0;
    struct cdz_lua_room *room = find_room(L, from->n_rows);
    copy->stamp = (cdz_lua_stamp){NULL, 0};
    copy->scores = room->rows;
    copy->scores.n_rows = from->n_rows;
    copy->room = room;
    room->taken = true;
    for (uint32_t r = 0; r < from->n_rows; r++)
        memcpy(cdz_row(&copy->scores, r), cdz_row(from, r), n_vocab * sizeof(float));
    return 1;
}

int cdz_lua_copy_collected(lua_State *L)
{
    cdz_lua_batch *b = lua_touserdata(L, 1);

    if (b->room) b->room->taken = false;
    b->room = NULL;
    return 0;
}

void cdz_lua_free_rooms(cdz_lua_session *S)
{
    for (struct cdz_lua_room *next, *r = S->rooms; r; r = next) {
        next = r->next;
        free(r);
    }
}
