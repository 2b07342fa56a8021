/* test_run_kv.c - blocks and the sequences that hold them: sharing, copying on write, limits, counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mutex.h"
#include "run/pass/sequence.h"
#include "support/child.h"

static const cdz_kv_shape shape = {2, 1, 8, CDZ_F32, 0};

typedef struct store {
    cdz_backend *backend;
    cdz_kv_budget budget;
    cdz_kv_pool *pool;
    cdz_kv_account account;
} store;

static store open_store(uint32_t n_blocks)
{
    store s = {0};
    char why[256];
    s.backend = cdz_cpu_backend_create(&(cdz_cpu_options){.variant = "scalar", .n_threads = 1}, why,
                                       sizeof why);
    assert_non_null(s.backend);
    s.budget.limit = n_blocks * s.backend->api->kv_block_bytes(s.backend, &shape);
    return s;
}

static void start_store(store *s, uint32_t reserved)
{
    cdz_error err = {0};
    if (cdz_kv_pool_create(s->backend, &shape, &s->budget, s->budget.limit, &s->pool, &err) !=
        CDZ_OK)
        fail_msg("%s", err.text);
    assert_true(cdz_kv_open(s->pool, reserved, &s->account));
}

static void close_store(store *s)
{
    assert_int_equal(s->account.used, 0);
    assert_int_equal(cdz_kv_pool_counts(s->pool).used, 0);
    cdz_kv_close(&s->account);
    assert_int_equal(s->budget.committed, 0);
    cdz_kv_pool_free(s->pool);
    s->backend->api->destroy(s->backend);
}

static cdz_seq new_seq(store *s, uint32_t n)
{
    cdz_seq seq = {0};
    assert_int_equal(cdz_seq_init(&seq, NULL, &s->account, 4, NULL), CDZ_OK);
    for (uint32_t i = 0; i < n; i++) {
        const int32_t id = (int32_t)i;
        assert_int_equal(cdz_seq_push(&seq, &id, 1, NULL), CDZ_OK);
    }
    return seq;
}

/* As a pass would: everything missing is computed. */
static void compute(cdz_seq *seq)
{
    cdz_error err = {0};
    if (cdz_seq_prepare(seq, &err) != CDZ_OK) fail_msg("%s", err.text);
    seq->computed = cdz_seq_visible(seq);
}

static void test_copy_on_write(void **state)
{
    (void)state;
    store s = open_store(16);
    start_store(&s, 4);
    cdz_seq a = new_seq(&s, 40), b = {0};
    compute(&a);
    assert_int_equal(a.n_blocks, 2);
    assert_int_equal(cdz_seq_init(&b, NULL, &s.account, 4, NULL), CDZ_OK);
    assert_int_equal(cdz_seq_copy(&b, &a, NULL), CDZ_OK);
    assert_int_equal(s.account.used, 2);
    assert_int_equal(b.blocks[0], a.blocks[0]);
    assert_int_equal(b.blocks[1], a.blocks[1]);

    const int32_t more = 7;
    assert_int_equal(cdz_seq_push(&b, &more, 1, NULL), CDZ_OK);
    compute(&b); /* the full block stays shared, the partial one becomes b's own */
    assert_int_equal(b.blocks[0], a.blocks[0]);
    assert_int_not_equal(b.blocks[1], a.blocks[1]);
    assert_int_equal(s.account.used, 3);
    const int32_t last = a.blocks[1];
    assert_int_equal(cdz_seq_push(&a, &more, 1, NULL), CDZ_OK);
    compute(&a); /* now alone in its block */
    assert_int_equal(a.blocks[1], last);
    assert_int_equal(s.account.used, 3);

    cdz_seq_clear(&a);
    assert_int_equal(s.account.used, 2);
    cdz_seq_clear(&b);
    assert_int_equal(cdz_kv_pool_counts(s.pool).peak, 3);
    close_store(&s);
}

static void test_truncate(void **state)
{
    (void)state;
    store s = open_store(16);
    start_store(&s, 0);
    cdz_seq a = new_seq(&s, 100);
    compute(&a);
    assert_int_equal(s.account.used, 4);
    cdz_seq_cut(&a, 65);
    assert_int_equal(a.computed, 65);
    assert_int_equal(s.account.used, 3);
    cdz_seq_cut(&a, 64);
    assert_int_equal(s.account.used, 2);
    assert_int_equal(cdz_seq_prepare(&a, NULL),
                     CDZ_OK); /* forgets the last position to have its scores again */
    assert_int_equal(a.computed, 63);
    assert_int_equal(a.n_blocks, 2);
    cdz_seq_cut(&a, 0);
    assert_int_equal(s.account.used, 0);
    cdz_error err = {0};
    assert_int_equal(cdz_seq_prepare(&a, &err), CDZ_E_INPUT);
    cdz_seq_clear(&a);
    close_store(&s);
}

/* Positions count visible ids only, wherever the holes are. */
static void test_mask(void **state)
{
    (void)state;
    static const uint8_t mask[] = {0, 0, 1, 0, 1, 1};
    static const uint32_t index_of[] = {2, 4, 5, 6, 7};
    store s = open_store(4);
    start_store(&s, 0);
    cdz_seq a = new_seq(&s, 8);
    cdz_seq_set_mask(&a, mask, sizeof mask);
    assert_int_equal(cdz_seq_visible(&a), 5);
    for (uint32_t p = 0; p < 5; p++) assert_int_equal(cdz_seq_slot(&a, p), index_of[p]);
    compute(&a);
    cdz_seq_cut(&a, 5);
    assert_int_equal(cdz_seq_visible(&a), 2);
    assert_int_equal(a.computed, 2);
    cdz_seq_clear(&a);
    close_store(&s);
}

static void test_limits(void **state)
{
    (void)state;
    store s = open_store(6);
    start_store(&s, 4);
    cdz_kv_account other;
    assert_false(cdz_kv_open(s.pool, 3, &other)); /* four of six are promised */
    assert_true(cdz_kv_open(s.pool, 1, &other));

    int32_t blocks[6];
    cdz_error err = {0};
    for (int i = 0; i < 5; i++) assert_int_equal(cdz_kv_take(&s.account, &blocks[i], &err), CDZ_OK);
    assert_int_equal(cdz_kv_take(&s.account, &blocks[5], &err), CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "holds 5 blocks"));
    assert_int_equal(cdz_kv_take(&other, &blocks[5], &err), CDZ_OK); /* its own is still there */
    cdz_kv_drop(&other, blocks[5]);
    for (int i = 0; i < 5; i++) cdz_kv_drop(&s.account, blocks[i]);
    cdz_kv_close(&other);
    assert_int_equal(s.budget.committed * 6, s.budget.limit * 4);
    close_store(&s);
}

static void test_no_room_for_one_block(void **state)
{
    (void)state;
    store s = open_store(1);
    s.budget.limit--;
    cdz_error err = {0};
    assert_int_equal(cdz_kv_pool_create(s.backend, &shape, &s.budget, s.budget.limit, &s.pool, &err),
                     CDZ_E_LIMIT);
    assert_non_null(strstr(err.text, "one block"));
    s.backend->api->destroy(s.backend);
}

/* A sequence that fails to grow keeps what it had. */
static void test_full_while_growing(void **state)
{
    (void)state;
    store s = open_store(2);
    start_store(&s, 0);
    cdz_seq a = new_seq(&s, 64);
    compute(&a);
    const int32_t more = 1;
    assert_int_equal(cdz_seq_push(&a, &more, 1, NULL), CDZ_OK);
    cdz_error err = {0};
    assert_int_equal(cdz_seq_prepare(&a, &err), CDZ_E_LIMIT);
    assert_int_equal(a.computed, 64);
    cdz_seq_cut(&a, 64);
    compute(&a);
    cdz_seq_clear(&a);
    close_store(&s);
}

/* --- promises of our own, which checked builds look at ----------------------------------------------------------- */

static void drop_twice(void)
{
    store s = open_store(4);
    start_store(&s, 2);
    int32_t block;
    cdz_error err = {0};
    (void)cdz_kv_take(&s.account, &block, &err);
    (void)cdz_kv_take(&s.account, &block, &err);
    cdz_kv_drop(&s.account, block);
    cdz_kv_drop(&s.account, block);
}

static void close_in_use(void)
{
    store s = open_store(4);
    start_store(&s, 2);
    int32_t block;
    cdz_error err = {0};
    (void)cdz_kv_take(&s.account, &block, &err);
    cdz_kv_close(&s.account);
}

static void hide_a_holder(void) /* a table that the census is not shown */
{
    store s = open_store(4);
    start_store(&s, 2);
    cdz_seq a = new_seq(&s, 40);
    compute(&a);
    cdz_kv_census_begin(s.pool);
    cdz_kv_census_account(&s.account);
    cdz_kv_census_end(s.pool);
}

/* --- and of the list of blocks that are found again --- */

static const uint8_t no_salt[CDZ_PREFIX_SALT];
static const int32_t some_ids[CDZ_KV_BLOCK] = {1, 2, 3};

static void list_block(cdz_prefix_list *list, int32_t block, uint64_t before)
{
    cdz_prefix_add(list, block, &(cdz_prefix_key){no_salt, before, 0, some_ids});
}

static void list_one_twice(void)
{
    cdz_prefix_list *list = cdz_prefix_create(4);
    list_block(list, 0, 0);
    list_block(list, 1, 0);
}

static void list_behind_nothing(void) /* a block that no listing was before */
{
    cdz_prefix_list *list = cdz_prefix_create(4);
    list_block(list, 0, 7);
    cdz_prefix_check(list, 4);
}

static void list_a_fresh_one(void) /* that the pool has never handed out */
{
    cdz_prefix_list *list = cdz_prefix_create(4);
    list_block(list, 3, 0);
    cdz_prefix_check(list, 3);
}

static void take_what_rests(void)
{
    cdz_prefix_list *list = cdz_prefix_create(4);
    list_block(list, 0, 0);
    cdz_prefix_rest(list, 0);
    cdz_prefix_remove(list, 0);
}

static void keep_a_list(void)
{
    cdz_prefix_list *list = cdz_prefix_create(8);
    for (int32_t b = 0; b < 6; b++) list_block(list, b, b ? cdz_prefix_serial(list, b - 1) : 0);
    for (int32_t b = 5; b > 1; b--) cdz_prefix_rest(list, b);
    cdz_prefix_wake(list, 3);
    cdz_prefix_rest_last(list, 3);
    cdz_prefix_check(list, 6);
    cdz_prefix_give(list);
    cdz_prefix_remove(list, 1);
    cdz_prefix_check(list, 6);
    cdz_prefix_free(list);
}

static void compute_beyond(void)
{
    store s = open_store(4);
    start_store(&s, 2);
    cdz_seq a = new_seq(&s, 3);
    compute(&a);
    a.computed = 33;
    cdz_seq_cut(&a, 3);
    cdz_seq_check(&a);
}

static void lock_twice(void)
{
    cdz_mutex m;
    cdz_mutex_init(&m);
    cdz_mutex_lock(&m);
    cdz_mutex_lock(&m);
}

static void unlock_unheld(void)
{
    cdz_mutex m;
    cdz_mutex_init(&m);
    cdz_mutex_unlock(&m);
}

static int engine;

static void serve_nobody(void)
{
    const void *whom = &engine;
    cdz_assert_serves(whom);
}

static void keep_them(void)
{
    store s = open_store(4);
    start_store(&s, 2);
    cdz_seq a = new_seq(&s, 40);
    compute(&a);
    cdz_kv_census_begin(s.pool);
    cdz_kv_census_account(&s.account);
    cdz_kv_census_blocks(&s.account, a.blocks, a.n_blocks);
    cdz_kv_census_end(s.pool);
    cdz_mutex m;
    cdz_mutex_init(&m);
    cdz_mutex_lock(&m);
    cdz_assert_holds(&m);
    cdz_mutex_unlock(&m);
    cdz_mutex_destroy(&m);
    cdz_thread_serve(&engine);
    const void *whom = &engine;
    cdz_assert_serves(whom);
    cdz_seq_clear(&a);
    close_store(&s);
}

static void test_broken_promises(void **state)
{
    (void)state;
#ifndef CDZ_CHECKED
    skip();
#endif
    assert_int_equal(signal_of(keep_them), 0);
    assert_int_equal(signal_of(keep_a_list), 0);
    assert_int_equal(signal_of(list_one_twice), SIGABRT);
    assert_int_equal(signal_of(list_behind_nothing), SIGABRT);
    assert_int_equal(signal_of(list_a_fresh_one), SIGABRT);
    assert_int_equal(signal_of(take_what_rests), SIGABRT);
    assert_int_equal(signal_of(drop_twice), SIGABRT);
    assert_int_equal(signal_of(close_in_use), SIGABRT);
    assert_int_equal(signal_of(hide_a_holder), SIGABRT);
    assert_int_equal(signal_of(compute_beyond), SIGABRT);
    assert_int_equal(signal_of(lock_twice), SIGABRT);
    assert_int_equal(signal_of(unlock_unheld), SIGABRT);
    assert_int_equal(signal_of(serve_nobody), SIGABRT);
}

/* ---- packed sequences ---- */

static const cdz_kv_packing packing = {4, false, {1, 8}, {1, 8}, 40};

typedef struct packed_store {
    store s;
    cdz_kv_pool *pool;
    cdz_kv_account spans;
} packed_store;

static void open_packed(packed_store *p)
{
    p->s = open_store(256);
    start_store(&p->s, 0);
    cdz_error err = {0};
    if (cdz_kv_pool_create_packed(p->s.backend, &shape, &packing, &p->s.budget, p->s.budget.limit,
                                  &p->pool, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    assert_true(cdz_kv_open(p->pool, 0, &p->spans));
    p->s.account.spans = &p->spans;
}

static void close_packed(packed_store *p)
{
    assert_int_equal(cdz_kv_pool_counts(p->pool).used, 0);
    cdz_kv_close(&p->spans);
    p->s.account.spans = NULL;
    cdz_kv_pool_free(p->pool);
    close_store(&p->s);
}

/* What a pass does to the counts. */
static void compute_packed(cdz_seq *seq)
{
    compute(seq);
    if (seq->computed > seq->reached) seq->reached = seq->computed;
}

static void push(cdz_seq *seq, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(cdz_seq_push(seq, &(int32_t){(int32_t)i}, 1, NULL), CDZ_OK);
}

/* Chunks of 128, 40 newest positions and spans of 32: seven blocks. */
static void test_ring(void **state)
{
    (void)state;
    packed_store p;
    open_packed(&p);
    const uint32_t ring = cdz_kv_ring(&packing);
    assert_int_equal(ring, 7);
    cdz_seq a = new_seq(&p.s, 1000);
    compute_packed(&a);
    assert_int_equal(cdz_kv_pool_counts(p.s.pool).used, ring);
    assert_int_equal(cdz_kv_pool_counts(p.pool).used, 1000 / 32);
    assert_int_equal(a.n_blocks, 32);
    for (uint32_t i = ring; i < a.n_blocks; i++) assert_int_equal(a.blocks[i], a.blocks[i - ring]);
    for (uint32_t i = 1; i < ring; i++) assert_int_not_equal(a.blocks[i], a.blocks[0]);
    cdz_seq_clear(&a);
    close_packed(&p);
}

/* Position n reads plain from the span that ends less than 40 before it; the ring has positions from 800 on. */
static void test_ring_truncated(void **state)
{
    (void)state;
    packed_store p;
    open_packed(&p);
    cdz_seq a = new_seq(&p.s, 1000);
    compute_packed(&a);
    cdz_seq_cut(&a, 900);
    assert_int_equal(a.computed, 900);
    assert_int_equal(a.n_spans, 900 / 32);
    compute_packed(&a);
    cdz_seq_cut(&a, 839); /* reads plain from 800 on */
    assert_int_equal(a.computed, 839);
    cdz_seq_cut(&a, 838); /* from 768 on, which is gone */
    assert_int_equal(a.computed, 0);
    assert_int_equal(a.n_spans, 0);
    assert_int_equal(cdz_kv_pool_counts(p.s.pool).used, 0);
    compute_packed(&a); /* a fresh reading has it */
    assert_int_equal(a.computed, 838);
    cdz_seq_clear(&a);
    close_packed(&p);
}

static void test_ring_shared(void **state)
{
    (void)state;
    packed_store p;
    open_packed(&p);
    const uint32_t ring = cdz_kv_ring(&packing);
    cdz_seq a = new_seq(&p.s, 500), b = {0}, c = {0};
    compute_packed(&a);
    assert_int_equal(cdz_seq_init(&b, NULL, &p.s.account, 4, NULL), CDZ_OK);
    assert_int_equal(cdz_seq_init(&c, NULL, &p.s.account, 4, NULL), CDZ_OK);
    assert_int_equal(cdz_seq_copy(&b, &a, NULL), CDZ_OK);
    assert_int_equal(b.computed, 500);
    assert_int_equal(cdz_kv_pool_counts(p.s.pool).used, ring);
    assert_int_equal(cdz_kv_pool_counts(p.pool).used, 15);
    push(&b, 1); /* writes into block 15, in slot 1 */
    compute_packed(&b);
    assert_int_equal(cdz_kv_pool_counts(p.s.pool).used, ring + 1);
    assert_int_not_equal(b.blocks[15], a.blocks[15]);
    assert_int_equal(b.blocks[15], b.blocks[1]);
    assert_int_equal(b.blocks[14], a.blocks[14]);
    assert_int_equal(cdz_kv_pool_counts(p.pool).used, 15);
    assert_int_equal(cdz_seq_share(&c, &a, 300, NULL), CDZ_OK); /* too far back */
    assert_int_equal(c.computed, 0);
    cdz_seq_clear(&a);
    assert_int_equal(cdz_kv_pool_counts(p.s.pool).used, ring);
    cdz_seq_clear(&b);
    cdz_seq_clear(&c);
    close_packed(&p);
}

/* A plain sequence takes nothing over from a packed one, nor the other way. */
static void test_ring_and_plain(void **state)
{
    (void)state;
    packed_store p;
    open_packed(&p);
    cdz_kv_account plain;
    assert_true(cdz_kv_open(p.s.pool, 0, &plain));
    cdz_seq a = new_seq(&p.s, 70), b = {0};
    compute_packed(&a);
    assert_int_equal(cdz_seq_init(&b, NULL, &plain, 4, NULL), CDZ_OK);
    assert_int_equal(cdz_seq_share(&b, &a, 70, NULL), CDZ_OK);
    assert_int_equal(b.computed, 0);
    push(&b, 70);
    compute(&b);
    assert_int_equal(cdz_seq_share(&a, &b, 70, NULL), CDZ_OK);
    assert_int_equal(a.computed, 0);
    cdz_seq_clear(&a);
    cdz_seq_clear(&b);
    cdz_kv_close(&plain);
    close_packed(&p);
}

/* --- blocks that are found again ------------------------------------------------------------------------------- */

static void list_store(store *s, uint32_t reserved)
{
    start_store(s, reserved);
    assert_int_equal(cdz_kv_pool_list(s->pool, NULL), CDZ_OK);
    s->account.lists = true;
}

static void census(const store *s, const cdz_kv_account *other, const cdz_seq *const *seqs, int n)
{
    cdz_kv_census_begin(s->pool);
    cdz_kv_census_account(&s->account);
    if (other) cdz_kv_census_account(other);
    for (int i = 0; i < n; i++)
        cdz_kv_census_blocks(seqs[i]->account, seqs[i]->blocks, cdz_seq_own_blocks(seqs[i]));
    cdz_kv_census_end(s->pool);
}

static uint32_t find(cdz_seq *seq)
{
    const uint32_t n = cdz_seq_find(seq, false);
    assert_int_equal(cdz_seq_prepare(seq, NULL), CDZ_OK);
    return n;
}

/* What a prompt has listed, another holds with it, and after it; and it is not written to. */
static void test_find(void **state)
{
    (void)state;
    store s = open_store(16);
    list_store(&s, 4);
    cdz_kv_account other;
    assert_true(cdz_kv_open(s.pool, 6, &other));
    other.lists = true;
    cdz_seq a = new_seq(&s, 100), b = {0};
    a.begun = 100;
    compute(&a);
    cdz_seq_list(&a);
    assert_int_equal(a.n_listed, 3);
    assert_int_equal(s.account.used, 1); /* listed blocks are the pool's */
    assert_int_equal(s.account.reserved, 1);
    census(&s, &other, (const cdz_seq *[]){&a}, 1);

    b = new_seq(&s, 96);
    b.account = &other;
    assert_int_equal(find(&b), 64); /* never the last position */
    assert_int_equal(b.blocks[1], a.blocks[1]);
    assert_int_not_equal(b.blocks[2], a.blocks[2]);
    census(&s, &other, (const cdz_seq *[]){&a, &b}, 2);
    const int32_t listed = a.blocks[1];
    cdz_seq_clear(&a);
    cdz_kv_close(&s.account);
    census(&s, &other, (const cdz_seq *[]){&b}, 1);

    cdz_seq_cut(&b, 40); /* b alone holds it now, and writes to it */
    const int32_t more = 7;
    assert_int_equal(cdz_seq_push(&b, &more, 1, NULL), CDZ_OK);
    compute(&b);
    assert_int_equal(b.blocks[1], listed);
    assert_int_equal(cdz_kv_serial(s.pool, listed), 0);
    census(&s, &other, (const cdz_seq *[]){&b}, 1);
    cdz_seq_clear(&b);
    census(&s, &other, NULL, 0);
    cdz_kv_close(&other);
    close_store(&s);
}

/* Of the same ids: after others, of another salt, of another kind. */
static void test_keys(void **state)
{
    (void)state;
    store s = open_store(16);
    list_store(&s, 0);
    cdz_seq a = new_seq(&s, 70), b;
    compute(&a);
    cdz_seq_clear(&a);
    assert_int_equal(cdz_kv_pool_counts(s.pool).resting, 2);
    b = new_seq(&s, 70);
    s.account.salt[31] = 1;
    assert_int_equal(find(&b), 0);
    s.account.salt[31] = 0;
    b.long_rope = true;
    assert_int_equal(cdz_seq_find(&b, false), 0);
    b.long_rope = false;
    b.ids[0]++;
    assert_int_equal(cdz_seq_find(&b, false), 0);
    b.ids[0]--;
    b.ids[33]++;
    assert_int_equal(cdz_seq_find(&b, false), 32);
    b.ids[33]--;
    assert_int_equal(cdz_seq_find(&b, false), 32);
    cdz_seq_clear(&b);

    b = new_seq(&s, 70);
    const uint8_t mask[70] = {0, 1};
    cdz_seq_set_mask(&b, mask, 70);
    assert_int_equal(cdz_seq_find(&b, false), 0);
    cdz_seq_set_mask(&b, NULL, 0);
    b.n_layers = 1;
    assert_int_equal(find(&b), 0);
    cdz_seq_clear(&b);
    close_store(&s);
}

/* The block used least recently goes first, and of a sequence the last one. */
static void test_give_away(void **state)
{
    (void)state;
    store s = open_store(6);
    list_store(&s, 0);
    cdz_seq a = new_seq(&s, 65), b = new_seq(&s, 65);
    for (int i = 0; i < 65; i++) b.ids[i] += 100;
    compute(&a);
    compute(&b);
    cdz_seq_clear(&a);
    cdz_seq_clear(&b);
    assert_int_equal(cdz_kv_pool_counts(s.pool).resting, 4);
    a = new_seq(&s, 65);
    assert_int_equal(find(&a), 64);
    compute(&a);
    cdz_seq c = new_seq(&s, 70); /* two are free, and the last of b's goes */
    for (int i = 0; i < 70; i++) c.ids[i] += 300;
    compute(&c);
    assert_int_equal(s.budget.given_away, 2);
    census(&s, NULL, (const cdz_seq *[]){&a, &c}, 2);
    cdz_seq_clear(&c);
    cdz_seq_clear(&a);
    a = new_seq(&s, 65);
    assert_int_equal(find(&a), 64);
    cdz_seq_clear(&a);
    close_store(&s);
}

/* Two that have computed the same keep one of the two; in a pool without a block to spare as well. */
static void test_twice(void **state)
{
    (void)state;
    store s = open_store(4);
    list_store(&s, 4);
    cdz_seq a = new_seq(&s, 64), b = new_seq(&s, 64);
    a.begun = b.begun = 64;
    compute(&a);
    compute(&b);
    cdz_seq_list(&a);
    cdz_seq_list(&b);
    assert_int_equal(b.n_listed, 2);
    assert_int_equal(b.blocks[1], a.blocks[1]);
    assert_int_equal(cdz_kv_pool_counts(s.pool).used, 2);
    census(&s, NULL, (const cdz_seq *[]){&a, &b}, 2);
    cdz_seq_clear(&a);
    cdz_seq_clear(&b);
    assert_int_equal(s.account.reserved, 4);
    census(&s, NULL, NULL, 0);
    close_store(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_on_write),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_mask),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_no_room_for_one_block),
        cmocka_unit_test(test_full_while_growing),
        cmocka_unit_test(test_broken_promises),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_give_away),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_ring_truncated),
        cmocka_unit_test(test_ring_shared),
        cmocka_unit_test(test_ring_and_plain),
    };
    return cmocka_run_group_tests_name("run kv", tests, NULL, NULL);
}
