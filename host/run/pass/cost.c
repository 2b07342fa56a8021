/* cost.c - counts a model's weights layer by layer: bytes that a pass reads, multiply-adds of a token and of the head, and of
 * experts only those that are active. Shapes alone are asked, nothing is measured. */
#include "run/pass/cost.h"

static uint64_t bytes_of(const cdz_weight *w)
{
    return w->data ? (uint64_t)w->n * cdz_row_bytes(w->dtype, w->k) : 0;
}

static void add_linear(cdz_cost *c, const cdz_linear *l)
{
    c->layer_bytes += bytes_of(&l->w) + bytes_of(&l->bias);
    c->layer_macs += l->w.data ? (uint64_t)l->w.n * l->w.k : 0;
}

static void add_feed(cdz_cost *c, const cdz_feed_forward *f)
{
    add_linear(c, &f->gate);
    add_linear(c, &f->up);
    add_linear(c, &f->down);
}

/* Rows of several streams: what each layer has of them. */
static void add_streams(cdz_cost *c, const cdz_stream_weights *s)
{
    const cdz_linear *const all[] = {&s->router, &s->foretell,  &s->correct,   &s->gate,
                                     &s->up,     &s->laurel_in, &s->laurel_out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_linear(c, all[i]);
}

/* And the model. */
static void add_all_streams(cdz_cost *c, const cdz_weights *w)
{
    for (uint32_t i = 0; w->stream_in && i + 1 < w->arch.streams.n; i++) {
        add_linear(c, &w->stream_in[i]);
        add_linear(c, &w->stream_out[i]);
    }
    add_linear(c, &w->layer_project);
}

static void add_norms(cdz_cost *c, const cdz_layer_weights *w)
{
    const cdz_norm *const norms[] = {&w->attn_norm,       &w->attn_post_norm, &w->cross_norm,
                                     &w->cross_post_norm, &w->mlp_norm,       &w->mlp_post_norm,
                                     &w->q_norm,          &w->k_norm,         &w->recurrent.norm};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        c->layer_bytes += bytes_of(&norms[i]->w) + bytes_of(&norms[i]->bias);
}

static void add_latent(cdz_cost *c, const cdz_latent_weights *w, uint32_t n_heads)
{
    const cdz_linear *const heads[] = {w->q_plain, w->q_rotated, w->k_up, w->v_up};
    add_linear(c, &w->q_a);
    add_linear(c, &w->kv_a);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (uint32_t h = 0; h < n_heads; h++) add_linear(c, &heads[i][h]);
}

static void add_layer(cdz_cost *c, const cdz_layer_weights *w, const cdz_arch *a)
{
    const cdz_recurrent_weights *r = &w->recurrent;
    const cdz_linear *const all[] = {
        &w->q,       &w->k,         &w->v,         &w->o,      &w->cross_q,
        &w->cross_k, &w->cross_v,   &w->cross_o,   &w->router, &w->shared_router,
        &w->q_gate,  &r->value,     &r->gate,      &r->share,  &r->decay,
        &r->out,     &w->latent_in, &w->latent_out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_linear(c, all[i]);
    add_norms(c, w);
    if (w->latent) add_latent(c, w->latent, a->n_heads);
    if (w->streams) add_streams(c, w->streams);
    if (!w->router.w.data) {
        add_feed(c, &w->mlp);
        return;
    }
    add_feed(c, &w->shared);
    for (uint32_t e = 0; e < a->n_active; e++) add_feed(c, &w->experts[e]); /* all have one shape */
}

cdz_cost cdz_cost_of(const cdz_weights *weights, cdz_dtype kv_type)
{
    const cdz_arch *a = &weights->arch;
    cdz_cost c = {.kv_bytes =
                      cdz_row_bytes(kv_type, weights->facts.kv_bytes_per_token / sizeof(float))};
    c.state_bytes = weights->facts.state_bytes;
    for (uint32_t i = 0; i < a->n_layers; i++) add_layer(&c, &weights->layers[i], a);
    add_all_streams(&c, weights);
    c.head_bytes = bytes_of(&weights->head.w) + bytes_of(&weights->head.bias) +
                   bytes_of(&weights->final_norm.w) + bytes_of(&weights->final_norm.bias);
    c.head_macs = (uint64_t)weights->head.w.n * weights->head.w.k;
    c.attention_macs = (uint64_t)cdz_arch_kv_layers(a) * a->n_heads * a->head_dim * 2;
    return c;
}

double cdz_cost_prompt_macs(const cdz_cost *cost, uint64_t n)
{
    const double rows = (double)n;
    return rows * (double)cost->layer_macs + (double)cost->head_macs +
           rows * (rows + 1) / 2 * (double)cost->attention_macs;
}
