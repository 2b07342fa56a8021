/* extensions.c - what a descriptor made from a script offers beside its kind: one function for each set of tables, since
 * `extension` is asked without a step. */
#include "lua/script.h"

enum {
    STATE = 1,
    COMPANION = 2,
    STEER = 4,
    PLAIN = 8,
    CONSTRAINED = 16,
    ON_HIDDEN = 32,
    SETS = 64
};

static const void *among(unsigned set, const char *id)
{
    const void *found = NULL;
    if (set & STATE) found = cdz_lua_state_extension(id);
    if (!found && set & COMPANION) found = cdz_lua_companion_extension(id);
    if (!found && set & ON_HIDDEN) found = cdz_lua_on_hidden_extension(id);
    if (!found && set & STEER) found = cdz_lua_steer_extension(id);
    if (!found && set & PLAIN) found = cdz_lua_plain_extension(id);
    if (!found && set & CONSTRAINED) found = cdz_lua_constrained_extension(id);
    return found;
}

/* clang-format off */
#define EACH(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32) \
    X(33) X(34) X(35) X(36) X(37) X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) X(46) X(47) X(48) \
    X(49) X(50) X(51) X(52) X(53) X(54) X(55) X(56) X(57) X(58) X(59) X(60) X(61) X(62) X(63)
/* clang-format on */
#define ASKED(set)                                                                                 \
    static const void *of_##set(const char *id)                                                    \
    {                                                                                              \
        return among(set, id);                                                                     \
    }
#define PLACE(set) [set] = of_##set,
EACH(ASKED)

cdz_lua_extension_fn *cdz_lua_extension_of(const cdz_lua_def *def, bool state)
{
    static cdz_lua_extension_fn *const of[SETS] = {EACH(PLACE)};
    if (def->drops) return cdz_lua_drops_extension; /* of a strategy, which has no other */
    return of[(state ? STATE : 0) | (def->has_companion ? COMPANION : 0) |
              (def->has_steer ? STEER : 0) | (def->has_apply ? 0 : PLAIN) |
              (def->has_constraint ? CONSTRAINED : 0) |
              (def->has_steer && def->has_on_hidden ? ON_HIDDEN : 0)];
}
