/* matrices.c - every matrix of a model's layers, for what changes them all at load; and every weight there is. */
#include <sys/mman.h>
#include <unistd.h>

#include "load/model_files.h"

typedef struct visitor {
    cdz_status (*visit)(void *arg, cdz_weight *weight);
    void *arg;
    bool all; /* or the matrices of layers alone: no bias, no norm, no router, nothing outside of them */
} visitor;

static cdz_status visit(const visitor *v, cdz_weight *weight)
{
    return weight->data ? v->visit(v->arg, weight) : CDZ_OK;
}

static cdz_status visit_linear(const visitor *v, cdz_linear *l)
{
    CDZ_TRY(visit(v, &l->w));
    return v->all ? visit(v, &l->bias) : CDZ_OK;
}

static cdz_status visit_norm(const visitor *v, cdz_norm *n)
{
    CDZ_TRY(visit(v, &n->w));
    return visit(v, &n->bias);
}

static cdz_status visit_feed_forward(const visitor *v, cdz_feed_forward *f)
{
    CDZ_TRY(visit_linear(v, &f->gate));
    CDZ_TRY(visit_linear(v, &f->up));
    return visit_linear(v, &f->down);
}

static cdz_status visit_latent(const visitor *v, const cdz_arch *a, cdz_latent_weights *l)
{
    if (v->all) CDZ_TRY(visit_norm(v, &l->q_a_norm));
    if (v->all) CDZ_TRY(visit_norm(v, &l->kv_a_norm));
    CDZ_TRY(visit_linear(v, &l->q_a));
    CDZ_TRY(visit_linear(v, &l->kv_a));
    cdz_linear *const heads[] = {l->q_plain, l->q_rotated, l->k_up, l->v_up};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (uint32_t h = 0; h < a->n_heads; h++) CDZ_TRY(visit_linear(v, &heads[i][h]));
    return CDZ_OK;
}

static cdz_status visit_layer(const visitor *v, const cdz_arch *a, cdz_layer_weights *l)
{
    cdz_norm *const norms[] = {&l->attn_norm,       &l->attn_post_norm, &l->cross_norm,
                               &l->cross_post_norm, &l->mlp_norm,       &l->mlp_post_norm,
                               &l->q_norm,          &l->k_norm,         &l->recurrent.norm};
    cdz_recurrent_weights *r = &l->recurrent;
    cdz_linear *const linears[] = {
        &l->q,       &l->k,       &l->v,     &l->o,    &l->q_gate, &l->cross_q,   &l->cross_k,
        &l->cross_v, &l->cross_o, &r->value, &r->gate, &r->out,    &l->latent_in, &l->latent_out};
    for (size_t i = 0; v->all && i < sizeof norms / sizeof *norms; i++)
        CDZ_TRY(visit_norm(v, norms[i]));
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++)
        CDZ_TRY(visit_linear(v, linears[i]));
    if (l->latent) CDZ_TRY(visit_latent(v, a, l->latent));
    if (v->all) CDZ_TRY(visit_linear(v, &l->router));
    if (v->all || a->recurrent.kind == CDZ_MIX_CONV) CDZ_TRY(visit_linear(v, &r->share));
    if (v->all) CDZ_TRY(visit_linear(v, &r->decay));
    if (v->all) CDZ_TRY(visit(v, &r->q_norm));
    if (v->all) CDZ_TRY(visit(v, &r->k_norm));
    if (v->all) CDZ_TRY(visit_linear(v, &l->shared_router));
    for (uint32_t e = 0; l->experts && e < a->n_experts; e++)
        CDZ_TRY(visit_feed_forward(v, &l->experts[e]));
    CDZ_TRY(visit_feed_forward(v, &l->shared));
    return visit_feed_forward(v, &l->mlp);
}

static cdz_status visit_layers(const visitor *v, cdz_weights *w)
{
    for (uint32_t i = 0; i < w->arch.n_layers; i++)
        CDZ_TRY(visit_layer(v, &w->arch, &w->layers[i]));
    for (uint32_t i = 0; w->arch.encoder && i < w->arch.encoder->n_layers; i++)
        CDZ_TRY(visit_layer(v, w->arch.encoder, &w->encoder.layers[i]));
    return CDZ_OK;
}

cdz_status cdz_weights_each_matrix(cdz_weights *w,
                                   cdz_status (*each)(void *arg, cdz_weight *matrix), void *arg)
{
    return visit_layers(&(visitor){each, arg, false}, w);
}

cdz_status cdz_weights_each(cdz_weights *w, cdz_status (*each)(void *arg, cdz_weight *weight),
                            void *arg)
{
    const visitor v = {each, arg, true};
    cdz_encoder_weights *e = &w->encoder;
    cdz_weight *const alone[] = {&w->embed, &w->head.w,    &w->positions, &w->relative,
                                 &e->embed, &e->positions, &e->relative,  &w->head.bias};
    cdz_norm *const norms[] = {&w->embed_norm, &w->final_norm, &e->embed_norm, &e->final_norm};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) CDZ_TRY(visit(&v, alone[i]));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) CDZ_TRY(visit_norm(&v, norms[i]));
    return visit_layers(&v, w);
}

void cdz_weights_let_go(const cdz_weight *matrix)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGE_SIZE), from = (uintptr_t)matrix->data;
    const uintptr_t end = from + cdz_row_bytes(matrix->dtype, matrix->k) * matrix->n;
    const uintptr_t first = (from + page - 1) / page * page, last = end / page * page;
    if (first < last)
        madvise((char *)(uintptr_t)matrix->data + (first - from), last - first, MADV_DONTNEED);
}
