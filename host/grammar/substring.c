/* substring.c - stretches of a text: any number of its words, characters or pieces, side by side, or none. A word is a run of
 * letters, digits and _, of whitespace, or of what is neither. */
#include "grammar/substring.h"

#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/utf8.h"

enum { MAX_DEPTH = 4 }; /* of the object, as JSON */

/* A text being laid out: it may begin and end at each border. */
typedef struct substring_work {
    cdz_net *net;
    uint32_t from, to, at;
    cdz_charset space, word;
} substring_work;

static void border(substring_work *w)
{
    cdz_net_edge_add(w->net, w->from, w->at, CDZ_NET_NOTHING, 0);
    cdz_net_edge_add(w->net, w->at, w->to, CDZ_NET_NOTHING, 0);
}

static void piece(substring_work *w, const char *text, size_t len)
{
    if (!len) return;
    w->at = cdz_net_text(w->net, w->at, text, len);
    border(w);
}

static int kind_of(const substring_work *w, uint32_t code)
{
    return cdz_charset_has(&w->space, code) ? 0 : cdz_charset_has(&w->word, code) ? 1 : 2;
}

static bool find_kinds(substring_work *w)
{
    (void)cdz_charset_add_class(&w->space, 's', false);
    (void)cdz_charset_add_class(&w->word, 'w', false);
    cdz_charset_settle(&w->space);
    cdz_charset_settle(&w->word);
    return !w->space.failed && !w->word.failed;
}

/* Words where by_word, else characters. */
static void split(substring_work *w, const cdz_json *text, bool by_word)
{
    size_t begin = 0;
    int kind = -1;
    for (size_t i = 0, n; i < text->len; i += n) {
        uint32_t code = 0;
        n = cdz_utf8_decode(text->string + i, text->len - i, &code);
        if (!n) n = 1; /* JSON's texts are UTF-8 */
        const int own = kind_of(w, code);
        if (i && (!by_word || own != kind)) {
            piece(w, text->string + begin, i - begin);
            begin = i;
        }
        kind = own;
    }
    piece(w, text->string + begin, text->len - begin);
}

static cdz_status pieces(substring_work *w, const cdz_json *list, cdz_error *err)
{
    for (uint32_t i = 0; i < list->len; i++) {
        if (!cdz_json_is(&list->items[i], CDZ_JSON_STRING))
            return cdz_err(err, CDZ_E_INPUT, "substring_chunks is a list of texts");
        piece(w, list->items[i].string, list->items[i].len);
    }
    return CDZ_OK;
}

static cdz_status lay_out(substring_work *w, const cdz_json *object, cdz_error *err)
{
    if (object->len != 1)
        return cdz_err(err, CDZ_E_INPUT,
                       "%%regex has one member: substring_words, substring_chars or "
                       "substring_chunks");
    const char *name = object->members[0].key;
    const cdz_json *value = &object->members[0].value;
    const bool words = strcmp(name, "substring_words") == 0,
               chars = strcmp(name, "substring_chars") == 0,
               chunks = strcmp(name, "substring_chunks") == 0;
    if (!words && !chars && !chunks)
        return cdz_err(err, CDZ_E_UNSUPPORTED,
                       "%%regex with %.60s is not supported; expected substring_words, "
                       "substring_chars or substring_chunks",
                       name);
    if (!cdz_json_is(value, chunks ? CDZ_JSON_ARRAY : CDZ_JSON_STRING))
        return cdz_err(err, CDZ_E_INPUT, "%s is %s", name, chunks ? "a list of texts" : "a text");
    border(w);
    if (chunks) return pieces(w, value, err);
    split(w, value, words);
    return CDZ_OK;
}

cdz_status cdz_net_substring(cdz_net *net, const char *text, size_t len, uint32_t from, uint32_t to,
                             cdz_error *err)
{
    const cdz_json_limits limits = {.depth = MAX_DEPTH};
    cdz_arena arena = {0};
    cdz_json object;
    cdz_status st = cdz_json_parse(text, len, "%regex", &limits, &arena, &object, err);
    substring_work w = {.net = net, .from = from, .to = to, .at = cdz_net_node(net)};
    if (st == CDZ_OK && !find_kinds(&w)) st = cdz_err_memory(err, "the texts of %regex");
    if (st == CDZ_OK) st = lay_out(&w, &object, err);
    cdz_charset_free(&w.space);
    cdz_charset_free(&w.word);
    cdz_arena_free(&arena);
    return st;
}
