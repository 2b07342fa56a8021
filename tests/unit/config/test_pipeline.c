/* test_pipeline.c - from ini text, command line and request to a plan: order, precedence, instances, sentences. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before cmocka.h, whose macro fail would eat cdz_fail. */
#include "unit/config/pipeline_plugins.h"

#include <cmocka.h>

#include "config/pipeline.h"
#include "support/documents.h"

#define HERE CADENZA_TEST_DATA "/pipelines"

static cdz_registry *open_registry(void)
{
    const cdz_registry_options options = {.builtin_dir = HERE "/use"};
    cdz_registry *registry = NULL;
    cdz_plugin_ref ref;
    cdz_error err = {0};
    assert_int_equal(cdz_registry_create(&options, &registry, &err), CDZ_OK);
    assert_int_equal(cdz_registry_add_linked(registry, &own_loader.base, &err), CDZ_OK);
    if (cdz_registry_load(registry, HERE "/use/plugins.fake", 0, &ref, &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_module_release(ref.module);
    return registry;
}

static int make_registry(void **state)
{
    *state = open_registry();
    return 0;
}

static int free_registry(void **state)
{
    cdz_registry_free(*state);
    return 0;
}

/* --- plans as text ------------------------------------------------------------------------------------------ */

static void write_params(const cdz_instance *instance, cdz_buf *out)
{
    cdz_param_table table = cdz_params_of(instance->plugin.base);
    for (uint32_t i = 0; i < table.n; i++) {
        cdz_buf_puts(out, i ? "," : "(");
        cdz_param_write(cdz_param_at(&table, i), instance->params, out);
    }
    if (table.n) cdz_buf_putc(out, ')');
}

/* "sample | 18 temperature(0.8) 20 top_k(50,null) | max_length" and "! warning" for each. */
static void write_plan(const cdz_plan *plan, cdz_buf *out)
{
    cdz_buf_puts(out, plan->strategy.name);
    write_params(&plan->strategy, out);
    cdz_buf_puts(out, " |");
    for (uint32_t i = 0; i < plan->n_processors; i++) {
        const cdz_instance *p = &plan->processors[i];
        cdz_buf_printf(out, " %u%s %s", p->place, p->custom ? "*" : "", p->name);
        write_params(p, out);
    }
    cdz_buf_puts(out, " |");
    for (uint32_t i = 0; i < plan->n_criteria; i++) {
        cdz_buf_printf(out, " %s", plan->criteria[i].name);
        write_params(&plan->criteria[i], out);
    }
    for (uint32_t i = 0; i < plan->n_warnings; i++) cdz_buf_printf(out, " ! %s", plan->warnings[i]);
}

typedef struct scene {
    const char *name, *ini;
    const char *model, *kwargs; /* JSON; NULL: none */
    const char *set[4];         /* name, value pairs */
    const char *expect;         /* the plan as text, or the sentence after '#' */
} scene;

static cdz_status apply_settings(cdz_pipeline *pipeline, const scene *s, cdz_error *err)
{
    for (size_t i = 0; i + 1 < sizeof s->set / sizeof s->set[0] && s->set[i]; i += 2)
        CDZ_TRY(cdz_pipeline_override(pipeline, s->set[i], s->set[i + 1], err));
    return CDZ_OK;
}

static void play(cdz_registry *registry, const scene *s)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    cdz_plan *plan = NULL;
    cdz_buf got = {0};
    const bool fails = *s->expect == '#';

    cdz_status st = cdz_pipeline_create(registry, s->ini, strlen(s->ini), HERE "/use/story.ini",
                                        &pipeline, &err);
    if (st == CDZ_OK) st = apply_settings(pipeline, s, &err);
    if (st == CDZ_OK)
        st = cdz_pipeline_plan(pipeline, s->model ? document_of(&arena, s->model) : NULL,
                               s->kwargs ? document_of(&arena, s->kwargs) : NULL, NULL, &plan, &err);
    cdz_pipeline_release(pipeline); /* the plan keeps what it needs */
    if (st == CDZ_OK)
        write_plan(plan, &got);
    else
        cdz_buf_puts(&got, err.text);
    /* Sentences name the file with its folder; the scenes leave it out. */
    for (char *at; (at = strstr(got.data, HERE "/use/"));)
        memmove(at, at + strlen(HERE "/use/"), strlen(at + strlen(HERE "/use/")) + 1);
    if (fails != (st != CDZ_OK) || strcmp(got.data, s->expect + fails) != 0)
        fail_msg("%s: %d\n  got      %s\n  expected %s", s->name, (int)st, got.data,
                 s->expect + fails);
    cdz_buf_free(&got);
    cdz_plan_free(plan);
    cdz_arena_free(&arena);
}

#define PLAY(table)                                                                                \
    do {                                                                                           \
        for (size_t i_ = 0; i_ < sizeof(table) / sizeof((table)[0]); i_++)                         \
            play(*state, &(table)[i_]);                                                            \
    } while (0)

/* --- the profile ---------------------------------------------------------------------------------------------- */

static const scene profile_scenes[] = {
    {"nothing: greedy", "", NULL, NULL, {0}, "greedy | | max_length"},
    {"sampling applies top_k 50",
     "",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"places, not the order of writing",
     "",
     "{\"eos_token_id\": 2}",
     "{\"top_p\": 0.9, \"temperature\": 0.5, \"min_length\": 4, \"do_sample\": true, "
     "\"repetition_penalty\": 1.1}",
     {0},
     "sample | 4 repetition_penalty(1.1) 8 min_length(4) 18 temperature(0.5) 20 top_k(50,null) 21 "
     "top_p(0.9) | max_length eos_token_id"},
    {"min_length needs an eos", "", NULL, "{\"min_length\": 4}", {0}, "greedy | | max_length"},
    {"sampling processors only with do_sample",
     "",
     NULL,
     "{\"temperature\": 0.5}",
     {0},
     "greedy | | max_length ! temperature does nothing without do_sample = true"},
    {"all criteria in order",
     "",
     "{\"eos_token_id\": [2, 3]}",
     "{\"stop_strings\": [\".\"], \"max_time\": 2.5}",
     {0},
     "greedy | | max_length max_time stop_strings eos_token_id"},
    {"a processor that is not installed",
     "",
     NULL,
     "{\"do_sample\": true, \"top_h\": 0.5}",
     {0},
     "#request: top_h is set: no processor 'top_h': did you mean 'top_k'?"},
    {"one that is not needed is not missed",
     "",
     NULL,
     "{\"top_h\": 0.5}",
     {0},
     "greedy | | max_length ! top_h does nothing without do_sample = true"},
    {"an integer temperature, as the reference",
     "",
     NULL,
     "{\"do_sample\": true, \"temperature\": 2}",
     {0},
     "#request: temperature = 2: must be a number above 0.0, written with a fraction (2.0, not 2)"},
    {"temperature 1 is no processor",
     "",
     NULL,
     "{\"do_sample\": true, \"temperature\": 1}",
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"temperature 0",
     "[generation]\ntemperature = 0\ndo_sample = yes\n",
     NULL,
     NULL,
     {0},
     "greedy | | max_length"},
    {"temperature 0 over sampling with filters",
     "[generation]\ndo_sample = yes\ntop_p = 0.5\n",
     NULL,
     "{\"temperature\": 0}",
     {0},
     "greedy | | max_length"},
    {"temperature 0 with quirks",
     "[generation]\ntemperature = 0\ndo_sample = yes\nquirks = yes\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: temperature = 0.0: must be a number above 0.0"},
    {"temperature 0 with a strategy that draws",
     "[pipeline]\nstrategy = sample\n[generation]\ntemperature = 0\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4: temperature = 0 is greedy decoding, which contradicts strategy = sample "
     "(story.ini:2); strategy = auto follows it"},
    {"temperature 0 of several sequences",
     "",
     NULL,
     "{\"temperature\": 0.0, \"num_return_sequences\": 2}",
     {0},
     "#request: num_return_sequences: temperature = 0 is greedy decoding, which gives one sequence"},
    {"a parameter's other name in a sentence",
     "[names]\ntemp = temperature\n[generation]\ndo_sample = yes\ntemp = -1\n",
     NULL,
     NULL,
     {0},
     "#story.ini:5: temp = -1.0: must be a number above 0.0"},
    {"and in a request's",
     "[names]\ntemp = temperature\n[generation]\ndo_sample = yes\n",
     NULL,
     "{\"temp\": 2}",
     {0},
     "#request: temp = 2: must be a number above 0.0, written with a fraction (2.0, not 2)"},
    {"create refuses",
     "",
     NULL,
     "{\"bad_words_ids\": []}",
     {0},
     "#request: bad_words_ids is an empty list"},
    {"renormalise comes last",
     "",
     NULL,
     "{\"do_sample\": true, \"renormalize_logits\": true, \"top_k\": 3}",
     {0},
     "sample | 20 top_k(3,null) 27 renormalize_logits(true) | max_length"},
    {"beams", "", NULL, "{\"num_beams\": 2}", {0}, "beam | | max_length"},
    {"beams that draw",
     "",
     NULL,
     "{\"num_beams\": 2, \"do_sample\": true}",
     {0},
     "beam | 20 top_k(50,null) | max_length"},
    {"groups of beams",
     "",
     NULL,
     "{\"num_beams\": 2, \"num_beam_groups\": 2}",
     {0},
     "org.cadenza.group-beam-search | | max_length"},
    {"phrases that must appear",
     "",
     NULL,
     "{\"num_beams\": 2, \"force_words_ids\": [[1], [[2], [3, 4]]]}",
     {0},
     "org.cadenza.constrained-beam-search | | max_length"},
    {"constraints are Python's",
     "",
     NULL,
     "{\"num_beams\": 2, \"constraints\": [1]}",
     {0},
     "#constraints: Python objects; write them as force_words_ids, [[ids], [[ids], [ids]]]"},
    {"contrastive search",
     "",
     NULL,
     "{\"penalty_alpha\": 0.6, \"top_k\": 4}",
     {0},
     "org.cadenza.contrastive-search | | max_length"},
    {"DoLa",
     "",
     NULL,
     "{\"dola_layers\": [0, 2], \"do_sample\": true}",
     {0},
     "org.cadenza.dola | 20 top_k(50,null) | max_length"},
    {"no beams at all",
     "",
     NULL,
     "{\"num_beams\": 0}",
     {0},
     "#num_beams = 0: must be an integer from 1"},
    {"guidance of one is none",
     "",
     NULL,
     "{\"guidance_scale\": 1.0, \"negative_prompt_ids\": [[1]]}",
     {0},
     "greedy | | max_length"},
};

static void the_profile(void **state)
{
    PLAY(profile_scenes);
}

/* --- precedence ----------------------------------------------------------------------------------------------- */

static const scene precedence_scenes[] = {
    {"the model over defaults",
     "",
     "{\"do_sample\": true, \"top_k\": 7}",
     NULL,
     {0},
     "sample | 20 top_k(7,null) | max_length"},
    {"a profile over the model",
     "[pipeline]\nuse = base.ini\n",
     "{\"top_k\": 7}",
     NULL,
     {0},
     "sample | 17* dry(1.5,2) 18 temperature(0.7) 20 top_k(10,null) | max_length"},
    {"the file over the profile",
     "[pipeline]\nuse = base.ini\nprocessors = none\n[generation]\ntop_k = 4\n",
     "{\"top_k\": 7}",
     NULL,
     {0},
     "sample | 18 temperature(0.7) 20 top_k(4,null) | max_length ! base.ini:10: [dry] is used by "
     "nothing"},
    {"-s over the file",
     "[generation]\ndo_sample = true\ntop_k = 4\n",
     NULL,
     NULL,
     {"top_k", "5"},
     "sample | 20 top_k(5,null) | max_length"},
    {"the request over -s",
     "[generation]\ndo_sample = true\n",
     NULL,
     "{\"top_k\": 6}",
     {"top_k", "5"},
     "sample | 20 top_k(6,null) | max_length"},
    {"the later -s wins",
     "[generation]\ndo_sample = true\n",
     NULL,
     NULL,
     {"top_k", "5", "generation.top_k", "8"},
     "sample | 20 top_k(8,null) | max_length"},
    {"none in the file",
     "[generation]\ndo_sample = true\ntop_k = none\n",
     "{\"top_k\": 7}",
     NULL,
     {0},
     "sample | | max_length"},
    {"none on the command line",
     "[generation]\ndo_sample = true\ntop_k = 3\n",
     NULL,
     NULL,
     {"top_k", "none"},
     "sample | | max_length"},
    {"null in the request",
     "[generation]\ndo_sample = true\ntop_k = 3\n",
     NULL,
     "{\"top_k\": null}",
     {0},
     "sample | | max_length"},
    {"null in the model's file is absent",
     "[generation]\ndo_sample = true\n",
     "{\"top_k\": null}",
     NULL,
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"eos switched off",
     "",
     "{\"eos_token_id\": 2}",
     "{\"eos_token_id\": null}",
     {0},
     "greedy | | max_length"},
    {"a profile's section, own keys over it",
     "[pipeline]\nuse = base.ini\n[dry]\nallowed_length = 9\n",
     NULL,
     NULL,
     {0},
     "sample | 17* dry(1.5,9) 18 temperature(0.7) 20 top_k(10,null) | max_length"},
    {"use = hf", "[pipeline]\nuse = hf\n", NULL, NULL, {0}, "greedy | | max_length"},
};

static void sources_win_in_order(void **state)
{
    PLAY(precedence_scenes);
}

/* --- instances ------------------------------------------------------------------------------------------------ */

static const scene instance_scenes[] = {
    {"custom processors at place 17",
     "[pipeline]\nprocessors = dry, picky\n"
     "[picky]\nid = org.example.picky\nhigh = 7\n"
     "[generation]\ndo_sample = true\nrepetition_penalty = 2\n",
     NULL,
     NULL,
     {0},
     "sample | 4 repetition_penalty(2.0) 17* dry(0.8,2) 17* picky(1,7) 20 top_k(50,null) | "
     "max_length"},
    {"the same plugin twice",
     "[pipeline]\nprocessors = a, b\n[a]\nid = dry\nmultiplier = 1\n"
     "[b]\nid = dry\nmultiplier = 2\n",
     NULL,
     NULL,
     {0},
     "greedy | 17* a(1.0,2) 17* b(2.0,2) | max_length"},
    {"a list entry twice",
     "[pipeline]\nprocessors = dry, dry\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: [pipeline] processors names 'dry' twice; give each a section of its own with "
     "id = dry"},
    {"an empty list entry",
     "[pipeline]\nprocessors = dry,,picky\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: [pipeline] processors: a name is missing between commas"},
    {"a custom one takes the place of an active default",
     "[pipeline]\nprocessors = mine\n[mine]\nid = repetition_penalty\nrepetition_penalty = 3\n",
     NULL,
     "{\"repetition_penalty\": 1.5}",
     {0},
     "greedy | 4* mine(3.0) | max_length ! mine takes the place of the repetition_penalty that "
     "the configuration asks for"},
    {"with nothing to replace it stands at 17",
     "[pipeline]\nprocessors = mine\n[mine]\nid = repetition_penalty\nrepetition_penalty = 3\n",
     NULL,
     NULL,
     {0},
     "greedy | 17* mine(3.0) | max_length"},
    {"a custom one follows the generation parameter",
     "[pipeline]\nprocessors = mine\n[mine]\nid = "
     "temperature\n",
     NULL,
     "{\"do_sample\": true, \"temperature\": 0.5}",
     {0},
     "sample | 17* mine(0.5) 20 top_k(50,null) | max_length"},
    {"a named stage of the profile is the profile's, once, where it is named",
     "[pipeline]\nprocessors = top_k, temperature\n[generation]\ntemperature = 0.5\n",
     NULL,
     "{\"do_sample\": true, \"top_p\": 0.5}",
     {0},
     "sample | 17* top_k(50,null) 17* temperature(0.5) 21 top_p(0.5) | max_length"},
    {"a named stage that has nothing to do is left out",
     "[pipeline]\nprocessors = top_k\n",
     NULL,
     "{\"do_sample\": true, \"top_k\": 0}",
     {0},
     "sample | | max_length"},
    {"a section of another name with a value of its own is an instance beside it",
     "[pipeline]\nprocessors = mine\n[mine]\nid = temperature\ntemperature = 0.25\n",
     NULL,
     "{\"do_sample\": true, \"temperature\": 0.5}",
     {0},
     "sample | 17* mine(0.25) 18 temperature(0.5) 20 top_k(50,null) | max_length"},
    {"its own value stands above it, also above a bad one",
     "[pipeline]\nprocessors = mine\n[mine]\nid = temperature\ntemperature = 0.25\n",
     NULL,
     "{\"temperature\": 0.0}",
     {0},
     "greedy | 17* mine(0.25) | max_length"},
    {"a section for a stage of the profile",
     "[top_k]\nmin_tokens_to_keep = 3\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "sample | 20 top_k(50,3) | max_length"},
    {"plugins by path",
     "[pipeline]\nprocessors = ../use/plugins.fake, x\n[x]\nid = "
     "../use/plugins.fake\n",
     NULL,
     NULL,
     {0},
     "greedy | 17* ../use/plugins.fake(1.0) 17* x(1.0) | max_length"},
    {"a custom criterion",
     "[pipeline]\nstopping = enough\n[enough]\nwords = 3\n",
     "{\"eos_token_id\": 2}",
     NULL,
     {0},
     "greedy | | max_length eos_token_id enough(3)"},
    {"a criterion takes a default's place",
     "[pipeline]\nstopping = enough, end\n[end]\nid = "
     "eos_token_id\n",
     "{\"eos_token_id\": 2}",
     NULL,
     {0},
     "greedy | | max_length end enough(10) ! end takes the place of the eos_token_id that the "
     "configuration asks for"},
    {"an unused section",
     "[drj]\nmultiplier = 1\n[pipeline]\nprocessors = dry\n",
     NULL,
     NULL,
     {0},
     "greedy | 17* dry(0.8,2) | max_length ! story.ini:1: [drj] is used by nothing: did you mean "
     "'dry'?"},
    {"create refuses: at its own section",
     "[pipeline]\nprocessors = picky\n[picky]\n"
     "id = org.example.picky\nlow = 7\n",
     NULL,
     NULL,
     {0},
     "#story.ini:5: [picky] low 7 is above high 5"},
    {"create refuses without a word",
     "[pipeline]\nprocessors = picky\n[picky]\n"
     "id = org.example.picky\nhigh = 9\n",
     NULL,
     NULL,
     {0},
     "#story.ini:5: [picky] org.example.picky: create failed (bad input) without saying "
     "why"},
    {"an unknown plugin",
     "[pipeline]\nprocessors = drz\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: no processor 'drz': did you mean 'dry'?"},
    {"an unknown id",
     "[pipeline]\nprocessors = x\n[x]\nid = drz\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4: [x] no processor 'drz': did you mean 'dry'?"},
    {"a criterion is no processor",
     "[pipeline]\nprocessors = enough\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: 'enough' is of the kind criterion; expected processor"},
    {"a missing file",
     "[pipeline]\nprocessors = lua:no_such.lua\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2: no_such.lua: no such plugin file or folder"},
    {"an unknown parameter",
     "[pipeline]\nprocessors = dry\n[dry]\nmultiplyer = 1\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4:1: [dry] multiplyer: dry has no such parameter: did you mean 'multiplier'?"},
    {"a value out of range",
     "[pipeline]\nprocessors = dry\n[dry]\nmultiplier = 6\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4: [dry] multiplier = 6.0: must be 0.0 to 5.0"},
    {"an unknown key of [pipeline]",
     "[pipeline]\nproccessors = dry\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2:1: [pipeline] proccessors: no such key: did you mean 'processors'?"},
    {"an unknown generation parameter",
     "[generation]\ntemprature = 1\n",
     NULL,
     NULL,
     {0},
     "#story.ini:2:1: [generation] temprature: no such parameter: did you mean 'temperature'?"},
    {"a bad generation value",
     "[generation]\n\ntop_k = many\n",
     NULL,
     NULL,
     {0},
     "#story.ini:3: [generation] top_k = \"many\": must be an integer"},
};

#define TWO "[pipeline]\nprocessors = dry, second\nstopping = enough\n[second]\nid = dry\n"

/* What a request says of single plugins: "section.name" in its kwargs. */
static const scene asked_scenes[] = {
    {"each section its own",
     TWO,
     NULL,
     "{\"second.multiplier\": 0.25, \"enough.words\": 3}",
     {0},
     "greedy | 17* dry(0.8,2) 17* second(0.25,2) | max_length enough(3)"},
    {"above the file and the command line",
     "[pipeline]\nprocessors = dry\n[dry]\nmultiplier = 0.5\n",
     NULL,
     "{\"dry.multiplier\": 0.75}",
     {"dry.multiplier", "0.6"},
     "greedy | 17* dry(0.75,2) | max_length"},
    {"by the id of the plugin",
     "[pipeline]\nprocessors = p\n[p]\nid = org.example.picky\n",
     NULL,
     "{\"org.example.picky.low\": 2}",
     {0},
     "greedy | 17* p(2,5) | max_length"},
    {"a named strategy's, by its section",
     "[pipeline]\nstrategy = org.example.backtrack\n",
     NULL,
     "{\"org.example.backtrack.floor\": 0.25}",
     {0},
     "org.example.backtrack(0.25,8,1.0,null) | | max_length"},
    {"a stage of the profile",
     "",
     NULL,
     "{\"do_sample\": true, \"top_k.top_k\": 7}",
     {0},
     "sample | 20 top_k(7,null) | max_length"},
    {"a named stage with a value of the request's is another instance",
     "[pipeline]\nprocessors = t\n[t]\nid = temperature\n",
     NULL,
     "{\"do_sample\": true, \"temperature\": 0.5, \"t.temperature\": 0.25}",
     {0},
     "sample | 17* t(0.25) 18 temperature(0.5) 20 top_k(50,null) | max_length"},
    {"what does not run is told",
     "",
     NULL,
     "{\"top_k.top_k\": 7}",
     {0},
     "greedy | | max_length ! request: top_k.top_k does nothing: top_k does not run in this "
     "request"},
    {"an id of two sections",
     "[pipeline]\nprocessors = a, b\n[a]\nid = org.example.picky\n[b]\nid = org.example.picky\n",
     NULL,
     "{\"org.example.picky.low\": 2}",
     {0},
     "#request: org.example.picky.low: 'org.example.picky' runs in several sections; name one: 'a' "
     "or 'b'"},
    {"an unknown section",
     TWO,
     NULL,
     "{\"secnd.multiplier\": 1}",
     {0},
     "#request: secnd.multiplier: nothing in the pipeline is called 'secnd': did you mean "
     "'second'?"},
    {"an unknown name",
     TWO,
     NULL,
     "{\"second.multiplyer\": 1}",
     {0},
     "#request: second.multiplyer: dry has no such parameter: did you mean 'multiplier'?"},
    {"out of range",
     TWO,
     NULL,
     "{\"second.multiplier\": 6}",
     {0},
     "#request: second.multiplier: multiplier = 6: must be 0.0 to 5.0"},
    {"of another type",
     TWO,
     NULL,
     "{\"enough.words\": \"many\"}",
     {0},
     "#request: enough.words: words = \"many\": must be an integer, 1 to 1000"},
    {"what create refuses",
     "[pipeline]\nprocessors = org.example.picky\n",
     NULL,
     "{\"org.example.picky.low\": 10}",
     {0},
     "#request: org.example.picky.low: low 10 is above high 5"},
    {"said twice",
     "[pipeline]\nprocessors = p\n[p]\nid = org.example.picky\n",
     NULL,
     "{\"p.low\": 2, \"org.example.picky.low\": 3}",
     {0},
     "#request: p.low and org.example.picky.low are the same parameter"},
    {"a generation parameter has no section",
     "",
     NULL,
     "{\"generation.top_k\": 2}",
     {0},
     "#request: generation.top_k: nothing in the pipeline is called 'generation': a generation "
     "parameter stands in kwargs by its name alone"},
    {"nothing to be run is named",
     "",
     NULL,
     "{\"pipeline.processors\": \"dry\"}",
     {0},
     "#request: pipeline.processors: nothing in the pipeline is called 'pipeline': a request sets "
     "values, it does not name what runs"},
    {"nor how it runs",
     TWO,
     NULL,
     "{\"second.isolation\": \"none\"}",
     {0},
     "#request: second.isolation: dry has no such parameter"},
};

static void requests_set_values_of_single_plugins(void **state)
{
    PLAY(asked_scenes);
}

static void instances_get_their_settings(void **state)
{
    PLAY(instance_scenes);
}

/* --- strategies ------------------------------------------------------------------------------------------------ */

#define BACKTRACK "[pipeline]\nstrategy = bt\n[bt]\nid = org.example.backtrack\n"
static const scene strategy_scenes[] = {
    {"a name sets the mode",
     "[pipeline]\nstrategy = sample\n",
     NULL,
     NULL,
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"a name stands above the model",
     "[pipeline]\nstrategy = greedy\n",
     "{\"do_sample\": true}",
     NULL,
     {0},
     "greedy | | max_length"},
    {"agreement is no contradiction",
     "[pipeline]\nstrategy = sample\n[generation]\ndo_sample = true\n",
     NULL,
     NULL,
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"a contradiction in one file",
     "[pipeline]\nstrategy = greedy\n[generation]\ndo_sample = true\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4: do_sample = true contradicts strategy = greedy (story.ini:2); strategy = auto "
     "follows do_sample"},
    {"a request may not contradict the file",
     "[pipeline]\nstrategy = greedy\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "#request: do_sample = true contradicts strategy = greedy (story.ini:2); strategy = auto "
     "follows do_sample"},
    {"-s stands above the file",
     "[generation]\ndo_sample = true\n",
     NULL,
     NULL,
     {"strategy", "greedy"},
     "greedy | | max_length"},
    {"-s contradicts -s",
     "",
     NULL,
     NULL,
     {"pipeline.strategy", "greedy", "do_sample", "true"},
     "#-s do_sample = true contradicts strategy = greedy (command line); strategy = auto follows "
     "do_sample"},
    {"a profile's do_sample gives way",
     "[pipeline]\nuse = base.ini\nstrategy = greedy\n",
     NULL,
     NULL,
     {0},
     "greedy | 17* dry(1.5,2) | max_length ! temperature, top_k do nothing without do_sample = "
     "true"},
    {"auto",
     "[pipeline]\nstrategy = auto\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"the model's beams give way to a name",
     "[pipeline]\nstrategy = sample\n",
     "{\"num_beams\": 4}",
     NULL,
     {0},
     "sample | 20 top_k(50,null) | max_length"},
    {"beams contradict greedy",
     "[pipeline]\nstrategy = greedy\n[generation]\nnum_beams = 2\n",
     NULL,
     NULL,
     {0},
     "#story.ini:4: num_beams = 2 contradicts strategy = greedy (story.ini:2); strategy = auto "
     "follows num_beams"},
    {"a named strategy may have beams",
     "[pipeline]\nstrategy = beam\n[generation]\nnum_beams = 2\n",
     NULL,
     NULL,
     {0},
     "beam | | max_length"},
    {"and needs them",
     "[pipeline]\nstrategy = beam\n",
     NULL,
     NULL,
     {0},
     "#strategy = beam needs num_beams above 1"},
    {"its own section",
     BACKTRACK "floor = 0.5\n",
     NULL,
     NULL,
     {0},
     "bt(0.5,8,1.0,null) | | max_length"},
    {"arguments of the request",
     BACKTRACK "floor = 0.5\n",
     NULL,
     "{\"floor\": 0.25, \"retries\": 3}",
     {0},
     "bt(0.25,3,1.0,null) | | max_length"},
    {"-s by section and by name",
     BACKTRACK,
     NULL,
     NULL,
     {"bt.floor", "0.5", "retries", "2"},
     "bt(0.5,2,1.0,null) | | max_length"},
    {"a generation parameter stays one, and is mirrored",
     BACKTRACK,
     NULL,
     "{\"temperature\": 0.5, \"do_sample\": true}",
     {0},
     "bt(0.15,8,0.5,null) | 18 temperature(0.5) 20 top_k(50,null) | max_length"},
    {"a name the strategy declares as its own is the strategy's, in a request",
     BACKTRACK,
     NULL,
     "{\"do_sample\": true, \"top_k\": 7}",
     {0},
     "bt(0.15,8,1.0,7) | 20 top_k(50,null) | max_length"},
    {"and on the command line",
     BACKTRACK,
     NULL,
     "{\"do_sample\": true}",
     {"top_k", "7"},
     "bt(0.15,8,1.0,7) | 20 top_k(50,null) | max_length"},
    {"but [generation] means the generation parameter",
     BACKTRACK "[generation]\ntop_k = 7\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "bt(0.15,8,1.0,null) | 20 top_k(7,null) | max_length"},
    {"also on the command line",
     BACKTRACK,
     NULL,
     "{\"do_sample\": true}",
     {"generation.top_k", "7"},
     "bt(0.15,8,1.0,null) | 20 top_k(7,null) | max_length"},
    {"in the strategy's range",
     BACKTRACK,
     NULL,
     NULL,
     {"top_k", "101"},
     "#-s bt.top_k = 101: must be 0 to 100"},
    {"an argument out of range",
     BACKTRACK,
     NULL,
     "{\"floor\": 2.0}",
     {0},
     "#request: floor = 2.0: must be 0.0 to 1.0"},
    {"an unknown argument",
     BACKTRACK,
     NULL,
     "{\"flor\": 0.5}",
     {0},
     "#request: flor is neither a generation parameter nor one of strategy org.example.backtrack: "
     "did you mean 'floor'?"},
    {"an unknown argument without a strategy of one's own",
     "",
     NULL,
     "{\"temprature\": 0.5}",
     {0},
     "#request: temprature is neither a generation parameter nor one of strategy greedy: did you "
     "mean 'temperature'?"},
    {"an unknown -s", "", NULL, NULL, {"flor", "1"}, "#-s flor: no such parameter"},
    {"-s to nobody",
     "",
     NULL,
     NULL,
     {"bt.floor", "1"},
     "#-s bt.floor: nothing in the pipeline is called 'bt'"},
    {"-s with two owners",
     "[pipeline]\nprocessors = a, b\n[a]\nid = dry\n[b]\nid = dry\n",
     NULL,
     NULL,
     {"multiplier", "1"},
     "#-s multiplier: a and b both have this parameter; write -s a.multiplier=... for one"},
    {"-s with one owner",
     "[pipeline]\nprocessors = dry\n",
     NULL,
     NULL,
     {"multiplier", "1"},
     "greedy | 17* dry(1.0,2) | max_length"},
    {"use on the command line",
     "",
     NULL,
     NULL,
     {"pipeline.use", "hf"},
     "#-s use: a profile belongs in a file, or is the pipeline itself: --pipeline hf"},
    {"an unknown key of [pipeline] in -s",
     "",
     NULL,
     NULL,
     {"pipeline.chains", "x"},
     "#-s chains: no such key: did you mean 'chain'?"},
    {"an unknown generation parameter in -s",
     "",
     NULL,
     NULL,
     {"generation.topk", "1"},
     "#-s topk: no such parameter: did you mean 'top_k'?"},
    {"nothing before the dot",
     "",
     NULL,
     NULL,
     {".x", "1"},
     "#-s .x: expected name=value or section.name=value"},
    {"a bad value of -s",
     "[pipeline]\nprocessors = dry\n",
     NULL,
     NULL,
     {"dry.multiplier", "9"},
     "#-s dry.multiplier = 9.0: must be 0.0 to 5.0"},
    {"a bad generation value of -s",
     "",
     NULL,
     NULL,
     {"top_k", "x"},
     "#-s top_k = \"x\": must be an integer"},
    {"kwargs that are no object",
     "",
     NULL,
     "[1]",
     {0},
     "#request: kwargs must be an object, found an array"},
    {"kwargs of null", "", NULL, "null", {0}, "greedy | | max_length"},
    {"a parameter of another mode is the named strategy's affair",
     BACKTRACK,
     NULL,
     "{\"num_beams\": 3, \"prompt_lookup_num_tokens\": 2}",
     {0},
     "bt(0.15,8,1.0,null) | | max_length"},
};

static void strategies_and_their_flags(void **state)
{
    PLAY(strategy_scenes);
}

/* --- chains ---------------------------------------------------------------------------------------------------- */

static const scene chain_scenes[] = {
    {"replaces the whole list",
     "[pipeline]\nchain = top_p, temperature, dry\n",
     NULL,
     "{\"do_sample\": true, \"temperature\": 0.5, \"top_p\": 0.9}",
     {0},
     "sample | 21* top_p(0.9) 18* temperature(0.5) 17* dry(0.8,2) | max_length"},
    {"a default no stage uses is nothing",
     "[pipeline]\nchain = dry\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "sample | 17* dry(0.8,2) | max_length"},
    {"a set parameter no stage uses",
     "[pipeline]\nchain = dry\n[generation]\ndo_sample = true\n"
     "top_p = 0.9\n",
     NULL,
     NULL,
     {0},
     "#story.ini:5: top_p is set, but no stage of the chain uses it"},
    {"set to what changes nothing",
     "[pipeline]\nchain = dry\n[generation]\ndo_sample = true\n"
     "top_p = 1.0\n",
     NULL,
     NULL,
     {0},
     "sample | 17* dry(0.8,2) | max_length"},
    {"the model's file only warns",
     "[pipeline]\nchain = dry\n",
     "{\"do_sample\": true, \"top_p\": 0.9}",
     NULL,
     {0},
     "sample | 17* dry(0.8,2) | max_length ! generation_config.json: top_p is set, but no stage of "
     "the chain uses it"},
    {"a stage under another name uses it",
     "[pipeline]\nchain = warm\n[warm]\nid = temperature\n",
     NULL,
     "{\"do_sample\": true, \"temperature\": 0.5}",
     {0},
     "sample | 18* warm(0.5) | max_length"},
    {"an empty chain",
     "[pipeline]\nchain = none\n",
     NULL,
     "{\"do_sample\": true}",
     {0},
     "sample | | max_length"},
    {"chain and processors together",
     "[pipeline]\nchain = top_k\nprocessors = dry\n",
     NULL,
     NULL,
     {0},
     "#story.ini:3: [pipeline] processors: chain replaces the whole list; put them there"},
    {"a chain over the profile's processors",
     "[pipeline]\nuse = base.ini\nchain = top_k, temperature\n",
     NULL,
     NULL,
     {0},
     "sample | 20* top_k(10,null) 18* temperature(0.7) | max_length ! base.ini:10: [dry] is used "
     "by "
     "nothing"},
    {"criteria stay",
     "[pipeline]\nchain = top_k\n",
     "{\"eos_token_id\": 2}",
     NULL,
     {0},
     "greedy | 20* top_k(50,null) | max_length eos_token_id"},
};

static void chains(void **state)
{
    PLAY(chain_scenes);
}

/* --- files ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *file, *sentence; /* NULL: it loads */
} file_cases[] = {
    {"a profile", "use/base.ini", NULL},
    {"eight files deep", "use/deep_2.ini", NULL},
    {"nine files deep", "use/deep_1.ini", "more than 8 files that use one another"},
    {"a file that uses itself", "use/self.ini", "self.ini: uses itself"},
    {"two that use each other", "use/cycle_a.ini", "cycle_a.ini: uses itself"},
    {"a mistake in a file that uses another", "use/wrong.ini",
     "wrong.ini:4:1: [generation] topk: no such parameter: did you mean 'top_k'?"},
    {"a model that is there", "use/models.ini", NULL},
    {"a model that is not there", "use/no_model.ini",
     "no_model.ini:5: [models] critic = nowhere: there is no " HERE "/use/nowhere"},
    {"a model called as the request's own", "use/target_model.ini",
     "target_model.ini:2: [models] target: is what loops call the request's own model"},
    {"no such file", "use/none.ini", "use/none.ini: "},
    {"a folder", "use", "pipelines/use: "},
};

static void files_that_use_files(void **state)
{
    for (size_t i = 0; i < sizeof file_cases / sizeof file_cases[0]; i++) {
        char path[512];
        cdz_error err = {0};
        cdz_pipeline *pipeline = NULL;
        snprintf(path, sizeof path, "%s/%s", HERE, file_cases[i].file);
        cdz_status st = cdz_pipeline_create_from_file(*state, path, &pipeline, &err);
        const char *sentence = file_cases[i].sentence;
        if ((st == CDZ_OK) != !sentence || (sentence && !strstr(err.text, sentence)))
            fail_msg("%s: %d %s", file_cases[i].name, (int)st, err.text);
        cdz_pipeline_release(pipeline);
    }
}

/* --- custom_generate --------------------------------------------------------------------------------------------- */

static void a_strategy_from_outside(void **state)
{
    static const char ini[] = "[pipeline]\nstrategy = greedy\n[generation]\ndo_sample = no\n";
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_plan *plan;
    assert_int_equal(cdz_pipeline_create(*state, ini, sizeof ini - 1, "s.ini", &pipeline, &err),
                     CDZ_OK);
    assert_int_equal(cdz_pipeline_override(pipeline, "retries", "5", &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_set_strategy(pipeline, "org.example.backtrack", &err), CDZ_OK);
    if (cdz_pipeline_plan(pipeline, NULL, document_of(&arena, "{\"floor\": 0.5}"), NULL, &plan,
                          &err) != CDZ_OK)
        fail_msg("%s", err.text);
    cdz_buf got = {0};
    write_plan(plan, &got);
    assert_string_equal(got.data, "org.example.backtrack(0.5,5,1.0,null) | | max_length");
    cdz_buf_free(&got);
    cdz_plan_free(plan);

    /* From the first plan on nothing changes. */
    assert_int_equal(cdz_pipeline_check(pipeline, &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_set_strategy(pipeline, "greedy", &err), CDZ_E_STATE);
    assert_int_equal(cdz_pipeline_override(pipeline, "top_k", "5", &err), CDZ_E_STATE);
    cdz_pipeline_release(pipeline);
    cdz_arena_free(&arena);
}

static void an_unknown_strategy_from_outside(void **state)
{
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_plan *plan = NULL;
    assert_int_equal(cdz_pipeline_create(*state, NULL, 0, "hf", &pipeline, &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_set_strategy(pipeline, "no_such", &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_check(pipeline, &err), CDZ_E_NOT_FOUND);
    assert_int_equal(cdz_pipeline_plan(pipeline, NULL, NULL, NULL, &plan, &err), CDZ_E_NOT_FOUND);
    assert_null(plan);
    /* It can be set right: nothing was planned. */
    assert_int_equal(cdz_pipeline_set_strategy(pipeline, "sample", &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_plan(pipeline, NULL, NULL, NULL, &plan, &err), CDZ_OK);
    assert_true(plan->generation.do_sample);
    cdz_plan_free(plan);
    cdz_pipeline_release(pipeline);
}

/* --- who drafts ----------------------------------------------------------------------------------------------------- */

static const struct draft_case {
    const char *name, *ini, *kwargs;
    bool assistant;
    const char *generation, *overrides; /* of the assistant */
    const char *expect;                 /* "strategy drafter tokens", or the sentence */
} draft_cases[] = {
    {"none", "", NULL, false, NULL, NULL, "greedy none"},
    {"an assistant", "", NULL, true, NULL, NULL, "assisted model 20"},
    {"its own config", "", NULL, true, "{\"num_assistant_tokens\": 7}", NULL, "assisted model 7"},
    {"null there is nothing", "", NULL, true, "{\"num_assistant_tokens\": null}", NULL,
     "assisted model 20"},
    {"the request's own", "", "{\"num_assistant_tokens\": 5}", true,
     "{\"num_assistant_tokens\": 7}", NULL, "assisted model 5"},
    {"which the reference ignores", "[generation]\nquirks = yes\n", "{\"num_assistant_tokens\": 5}",
     true, "{\"num_assistant_tokens\": 7}", NULL, "assisted model 7"},
    {"its section", "[model]\nnum_assistant_tokens = 4\n", "{\"num_assistant_tokens\": 5}", true,
     NULL, NULL, "assisted model 4"},
    {"values set on it", "[model]\nnum_assistant_tokens = 4\n", NULL, true, NULL,
     "{\"num_assistant_tokens\": 3, \"temperature\": 2.0}", "assisted model 3"},
    {"unknown values set on it", "", NULL, true, NULL, "{\"num_assistant_token\": 3}",
     "request: assistant.generation_config: num_assistant_token: no such parameter: did you mean "
     "'num_assistant_tokens'?"},
    {"bad values set on it", "", NULL, true, NULL, "{\"num_assistant_tokens\": 0}",
     "request: assistant.generation_config: num_assistant_tokens = 0: must be 1 to 1000"},
    {"lookup", "", "{\"prompt_lookup_num_tokens\": 3}", false, NULL, NULL,
     "assisted prompt_lookup 20"},
    {"an assistant before lookup", "", "{\"prompt_lookup_num_tokens\": 3}", true, NULL, NULL,
     "assisted model 20"},
    {"early exit", "", "{\"assistant_early_exit\": 3}", false, NULL, NULL, "assisted early_exit 20"},
    {"a named drafter", "[pipeline]\ndrafter = guess\n", NULL, false, NULL, NULL,
     "assisted guess 20"},
    {"an instance of one",
     "[pipeline]\ndrafter = mine\n[mine]\nid = guess\nnum_assistant_tokens = 2\n", NULL, false,
     NULL, NULL, "assisted mine 2"},
    {"no such pace", "[pipeline]\ndrafting = quick\n", NULL, true, NULL, NULL,
     HERE "/use/d.ini:2: drafting: there is no 'quick', expected adaptive or fixed"},
    {"no such drafter", "[pipeline]\ndrafter = gues\n", NULL, false, NULL, NULL,
     HERE "/use/d.ini:2: no drafter 'gues': did you mean 'guess'?"},
    {"drafts and a named strategy", "[pipeline]\nstrategy = sample\ndrafter = guess\n", NULL, false,
     NULL, NULL, "sample guess 20"},
    {"beams have no use for them", "[generation]\nnum_beams = 2\n", NULL, true, NULL, NULL,
     "beam none"},
};

static void write_draft(const cdz_plan *plan, cdz_buf *out)
{
    cdz_buf_printf(out, "%s ", plan->strategy.name);
    if (!plan->drafter.plugin.base) {
        cdz_buf_puts(out, "none");
        return;
    }
    const p_drafter *p = plan->drafter.params;
    cdz_buf_printf(out, "%s %lld", plan->drafter.name, (long long)p->num_assistant_tokens);
}

static void check_draft(cdz_registry *registry, const struct draft_case *c)
{
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_pipeline *pipeline = NULL;
    cdz_plan *plan = NULL;
    cdz_buf got = {0};
    const cdz_plan_assistant draft = {c->generation ? document_of(&arena, c->generation) : NULL,
                                      c->overrides ? document_of(&arena, c->overrides) : NULL};
    cdz_status st =
        cdz_pipeline_create(registry, c->ini, strlen(c->ini), HERE "/use/d.ini", &pipeline, &err);
    if (st == CDZ_OK)
        st = cdz_pipeline_plan(pipeline, NULL, c->kwargs ? document_of(&arena, c->kwargs) : NULL,
                               c->assistant ? &draft : NULL, &plan, &err);
    if (st == CDZ_OK)
        write_draft(plan, &got);
    else
        cdz_buf_puts(&got, err.text);
    if (strcmp(got.data, c->expect) != 0) fail_msg("%s: %s", c->name, got.data);
    cdz_buf_free(&got);
    cdz_plan_free(plan);
    cdz_pipeline_release(pipeline);
    cdz_arena_free(&arena);
}

static void who_drafts(void **state)
{
    for (size_t i = 0; i < sizeof draft_cases / sizeof draft_cases[0]; i++)
        check_draft(*state, &draft_cases[i]);
}

/* The engine chooses the length of drafts where no token hangs on it. */
static void whose_pace(void **state)
{
    static const struct {
        const char *name, *ini, *kwargs;
        bool paces;
    } cases[] = {
        {"greedy", "", "{\"do_sample\": false}", true},
        {"asked for", "[pipeline]\ndrafting = adaptive\n", NULL, true},
        {"a named drafter", "[pipeline]\ndrafter = guess\n", NULL, true},
        {"lookup", "", "{\"prompt_lookup_num_tokens\": 3}", true},
        {"a named loop", "[pipeline]\nstrategy = assisted\n", NULL, true},
        {"not asked for", "[pipeline]\ndrafting = fixed\n", NULL, false},
        {"draws", "", "{\"do_sample\": true}", false},
        {"the reference's rounds", "", "{\"quirks\": true}", false},
        {"another loop", "[pipeline]\nstrategy = greedy\n", NULL, false},
        {"nobody to draft", "[pipeline]\ndrafter = none\n", NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_error err = {0};
        cdz_pipeline *pipeline = NULL;
        cdz_plan *plan = NULL;
        const cdz_plan_assistant draft = {NULL, NULL};
        cdz_status st = cdz_pipeline_create(*state, cases[i].ini, strlen(cases[i].ini),
                                            HERE "/use/d.ini", &pipeline, &err);
        if (st == CDZ_OK)
            st = cdz_pipeline_plan(pipeline, NULL,
                                   cases[i].kwargs ? document_of(&arena, cases[i].kwargs) : NULL,
                                   &draft, &plan, &err);
        if (st != CDZ_OK) fail_msg("%s: %s", cases[i].name, err.text);
        if (plan->paces_drafts != cases[i].paces) fail_msg("%s", cases[i].name);
        cdz_plan_free(plan);
        cdz_pipeline_release(pipeline);
        cdz_arena_free(&arena);
    }
}

/* --- plans know where values came from ----------------------------------------------------------------------------- */

static void origins(void **state)
{
    static const char ini[] = "[pipeline]\nuse = base.ini\n[generation]\ntop_p = 0.5\n";
    static const struct {
        const char *field;
        cdz_source source;
        uint32_t line;
    } cases[] = {
        {"temperature", CDZ_SOURCE_PROFILE, 7}, {"top_p", CDZ_SOURCE_FILE, 4},
        {"min_p", CDZ_SOURCE_DEFAULT, 0},       {"eos_token_id", CDZ_SOURCE_MODEL, 0},
        {"seed", CDZ_SOURCE_COMMAND, 0},        {"max_new_tokens", CDZ_SOURCE_REQUEST, 0},
    };
    cdz_arena arena = {0};
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    cdz_plan *plan;
    assert_int_equal(
        cdz_pipeline_create(*state, ini, sizeof ini - 1, HERE "/use/o.ini", &pipeline, &err),
        CDZ_OK);
    assert_int_equal(cdz_pipeline_override(pipeline, "seed", "7", &err), CDZ_OK);
    assert_int_equal(cdz_pipeline_plan(pipeline, document_of(&arena, "{\"eos_token_id\": 2}"),
                                       document_of(&arena, "{\"max_new_tokens\": 3}"), NULL, &plan,
                                       &err),
                     CDZ_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const cdz_origin *o = &plan->origins[cdz_generation_slot(cases[i].field)];
        if (o->source != cases[i].source || o->line != cases[i].line)
            fail_msg("%s: source %d, line %u", cases[i].field, (int)o->source, o->line);
    }
    assert_int_equal(plan->generation.pad_token_id.value, 2);
    assert_int_equal(plan->generation.seed.value, 7);
    assert_false(plan->generation.max_length_given);
    cdz_plan_free(plan);
    cdz_pipeline_release(pipeline);
    cdz_arena_free(&arena);
}

/* --- explain ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *ini, *model;
    const char *lines[4]; /* each must stand in the text */
} explain_cases[] = {
    {"the profile",
     "",
     NULL,
     {"\nStrategy\n  greedy  auto: do_sample = false (default)  from ",
      "\nProcessors, in order\n  none\n", "\n  max_length  default  from "}},
    {"columns and origins",
     "[pipeline]\nprocessors = dry\n[generation]\ndo_sample = true\ntemperature = 0.5\n"
     "[dry]\nmultiplier = 2\n",
     "{\"eos_token_id\": 2}",
     {"\n  17  dry          multiplier = 2.0  e.ini:2  from ",
      "\n  18  temperature  0.5               e.ini:5", "\n  do_sample     true  e.ini:4\n",
      "\n  eos_token_id  [2]   generation_config.json\n"}},
    {"what none turned off", "[generation]\ntop_k = none\n", NULL, {"\n  top_k  none  e.ini:2\n"}},
    {"the pad that follows eos",
     "",
     "{\"eos_token_id\": 2}",
     {"\n  pad_token_id  2    the first eos_token_id\n"}},
    {"a cut before scaling",
     "[pipeline]\nchain = top_p, temperature\n[generation]\ndo_sample = true\n",
     NULL,
     {"\n  top_p before temperature: cuts before the scores are scaled; put temperature first\n"}},
    {"a cut before a penalty",
     "[pipeline]\nchain = top_k, repetition_penalty\n",
     NULL,
     {"\n  top_k before repetition_penalty: selects tokens before their scores are changed\n"}},
    {"normalised too early",
     "[pipeline]\nchain = renormalize_logits, dry\n",
     NULL,
     {"\n  renormalize_logits before dry: normalises scores that are changed afterwards\n"}},
    {"twice",
     "[pipeline]\nchain = a, b\n[a]\nid = dry\n[b]\nid = dry\n",
     NULL,
     {"\n  a before b: the same processor, applied twice\n"}},
    {"nothing for greedy",
     "[pipeline]\nchain = top_k\n",
     NULL,
     {"\n  top_k never changes which token is best, so it has no effect with strategy greedy\n"}},
    {"sampling parameters without sampling",
     "[generation]\ntop_p = 0.5\n",
     NULL,
     {"\nWarnings\n  top_p does nothing without do_sample = true\n"}},
};

static void explain_shows_the_chain(void **state)
{
    for (size_t i = 0; i < sizeof explain_cases / sizeof explain_cases[0]; i++) {
        cdz_arena arena = {0};
        cdz_error err = {0};
        cdz_buf text = {0};
        cdz_pipeline *pipeline = NULL;
        const char *ini = explain_cases[i].ini, *model = explain_cases[i].model;
        assert_int_equal(cdz_pipeline_create(*state, ini, strlen(ini), "e.ini", &pipeline, &err),
                         CDZ_OK);
        if (cdz_pipeline_explain_text(pipeline, model ? document_of(&arena, model) : NULL, NULL,
                                      &text, &err) != CDZ_OK)
            fail_msg("%s: %s", explain_cases[i].name, err.text);
        for (size_t k = 0; k < 4 && explain_cases[i].lines[k]; k++)
            if (!strstr(text.data, explain_cases[i].lines[k]))
                fail_msg("%s: '%s' is not in\n%s", explain_cases[i].name, explain_cases[i].lines[k],
                         text.data);
        cdz_pipeline_release(pipeline);
        cdz_buf_free(&text);
        cdz_arena_free(&arena);
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------- */

static void *plan_many(void *user)
{
    cdz_arena arena = {0};
    const cdz_json *kwargs = document_of(&arena, "{\"do_sample\": true, \"top_p\": 0.5}");
    size_t good = 0;
    for (int i = 0; i < 50; i++) {
        cdz_plan *plan = NULL;
        cdz_error err = {0};
        if (cdz_pipeline_plan(user, NULL, kwargs, NULL, &plan, &err) == CDZ_OK)
            good += plan->n_processors == 3;
        cdz_plan_free(plan);
    }
    cdz_arena_free(&arena);
    return (void *)good;
}

static void planning_from_several_threads(void **state)
{
    static const char ini[] = "[pipeline]\nprocessors = dry\n";
    cdz_error err = {0};
    cdz_pipeline *pipeline;
    pthread_t threads[4];
    assert_int_equal(cdz_pipeline_create(*state, ini, sizeof ini - 1, "t.ini", &pipeline, &err),
                     CDZ_OK);
    assert_int_equal(cdz_pipeline_override(pipeline, "seed", "1", &err), CDZ_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, plan_many, pipeline), 0);
    for (int i = 0; i < 4; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_int_equal((size_t)good, 50);
    }
    cdz_pipeline_release(pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_profile),
        cmocka_unit_test(sources_win_in_order),
        cmocka_unit_test(instances_get_their_settings),
        cmocka_unit_test(requests_set_values_of_single_plugins),
        cmocka_unit_test(strategies_and_their_flags),
        cmocka_unit_test(chains),
        cmocka_unit_test(files_that_use_files),
        cmocka_unit_test(a_strategy_from_outside),
        cmocka_unit_test(an_unknown_strategy_from_outside),
        cmocka_unit_test(who_drafts),
        cmocka_unit_test(whose_pace),
        cmocka_unit_test(origins),
        cmocka_unit_test(explain_shows_the_chain),
        cmocka_unit_test(planning_from_several_threads),
    };
    return cmocka_run_group_tests(tests, make_registry, free_registry);
}
