/* attacks.h - scripts that try to hang, starve, spy on or corrupt the host, each with what stops it. The table of things that
 * break a stock sandbox, the known escapes of other hosts of Lua (by their CVE numbers), and what this host adds. */
#ifndef CDZ_TESTS_LUA_ATTACKS_H
#define CDZ_TESTS_LUA_ATTACKS_H

#include <stddef.h>

/* body of apply(p, ids, row, ctx). sentence NULL: the script proves the point itself and sets row[0] to 1. most: what it may
 * be charged where it is not the instruction budget that stops it; 0: 5000. */
typedef struct attack {
    const char *name, *body, *sentence;
    long long most;
} attack;

#define SPENT "instruction budget spent: 2000000 per call"
#define TIMED "time budget spent: 50 ms per call" /* of the thread's own clock */

static const attack attacks[] = {
    /* --- the table of things that break a stock sandbox -------------------------------------------------------- */
    {"find that backtracks quadratically", "return ('a'):rep(60000):find('.-b')", SPENT, 0},
    {"find that backtracks exponentially", "return ('a'):rep(100):find('a-a-a-a-b')", SPENT, 0},
    {"match, gmatch and gsub alike", "return ('a'):rep(60000):gsub('.-b', '')", SPENT, 0},
    {"gmatch that backtracks", "for w in ('a'):rep(60000):gmatch('.-b') do end", SPENT, 0},
    {"a million-step repetition of nothing",
     "assert(string.rep('', 1 << 36) == '' and ('x'):rep(-1) == '') row[0] = 1", NULL, 0},
    {"a long repetition", "return ('x'):rep(1 << 21)", "text too long (at most 1 MiB)", 0},
    {"a repetition that overflows", "return ('x'):rep(math.maxinteger, ('y'):rep(100))",
     "text too long", 0},
    {"table.move over a void", "return table.move({}, 1, 100000000, 2)", "too many elements", 0},
    {"table.move that overflows", "return table.move({}, math.mininteger, math.maxinteger, 2)",
     "too many elements", 0},
    {"table.concat over a void",
     "return table.concat(setmetatable({}, { __index = function() return '' end }), '', 1, 1e9 // "
     "1 | 0)",
     "too many elements", 0},
    {"table.insert with a lying length",
     "return table.insert(setmetatable({}, { __len = function() return 1 << 40 end }), 1, 1)",
     "too many elements", 0},
    {"table.insert with a length that changes",
     "local n, t = 0, {} setmetatable(t, { __len = function() n = n + 1 return n == 1 and 0 or 1 << "
     "60 end }) table.insert(t, 1, 'x') assert(n == 1 and t[1] == 'x') row[0] = 1",
     NULL, 0},
    {"table.remove with a length that changes",
     "local n, t = 0, { 'x' } setmetatable(t, { __len = function() n = n + 1 return n == 1 and 1 or 1 "
     "<< 60 end }) assert(table.remove(t, 1) == 'x' and t[1] == nil) row[0] = 1",
     NULL, 0},
    {"table.insert at the last integer",
     "table.insert(setmetatable({}, { __len = function() return math.maxinteger end }), "
     "math.maxinteger, 1) row[0] = 1",
     NULL, 0},
    {"table.concat within itself",
     "local t = {} setmetatable(t, { __index = function() return table.concat(t, '', 1, 1) end }) "
     "return t[1]",
     "C stack overflow", 0},
    {"table.insert, move, unpack and tostring within themselves",
     "local t, m = {}, {} m.__index = function(_, i) table.move(t, i, i, 1, {}) return "
     "table.unpack(t, i, i) end\n"
     "m.__tostring = function() return tostring(t) end m.__newindex = function(_, i, v) "
     "table.insert(t, 1, v) end setmetatable(t, m)\n"
     "assert(not pcall(tostring, t) and not pcall(table.insert, t, 1, 1)) return t[1]",
     "C stack overflow", 0},
    {"table.unpack of too many", "return table.unpack({}, 1, 1000000)", "too many elements", 0},
    {"table.unpack that overflows", "return table.unpack({}, math.mininteger, math.maxinteger)",
     "too many elements", 0},
    {"table.remove with a lying length",
     "return table.remove(setmetatable({}, { __len = function() return 1 << 40 end }), 1)",
     "too many elements", 0},
    {"a sort whose order never settles",
     "local t = {} for i = 1, 100000 do t[i] = i end\n"
     "table.sort(t, function() return true end)",
     SPENT, 0},
    {"gsub that grows tenfold",
     "local s = 'x' for i = 1, 10 do s = s:gsub('.', '%0%0%0%0%0%0%0%0%0%0') end", "text too long",
     400000},
    {"format that grows",
     "return ('%s'):rep(3):format(('x'):rep(1 << 19), ('x'):rep(1 << 19), ('x'):rep(1 << 19))",
     "text too long", 150000},
    {"pcall around every loop",
     "for i = 1, 200 do pcall(function() while true do end end) end row[0] = 1", SPENT, 0},
    {"two hundred loops, each caught, and what is left is counted",
     "local n = 0 for i = 1, 200 do pcall(function() while true do end end) n = n + 1 end\n"
     "row[0] = n == 200 and 1 or 0",
     SPENT, 0},
    {"pcall in a tail call", "local function f() return pcall(f) end while true do f() end", SPENT,
     0},
    {"xpcall with an endless handler",
     "xpcall(function() while true do end end, function() while true do end end)", SPENT, 0},
    {"an endless handler of an ordinary error", "xpcall(error, function() while true do end end)",
     SPENT, 0},
    {"a handler that fails", "assert(not xpcall(error, function() error('again') end)) row[0] = 1",
     NULL, 0},
    {"coroutines in a processor", "return coroutine.wrap(function() end)()",
     "coroutines are for strategies", 0},
    {"an endless finaliser", "setmetatable({}, { __gc = function() while true do end end })",
     "a metatable may not have __gc", 0},
    {"a finaliser added later",
     "local m = {} local t = setmetatable({}, m) m.__gc = function() while true do end end\n"
     "t = nil for i = 1, 20000 do local x = { i } end row[0] = 1",
     NULL, 90000},
    {"a weak table", "setmetatable({}, { __mode = 'k' })", "a metatable may not have __mode", 0},
    {"a closing metamethod", "setmetatable({}, { __close = print })",
     "a metatable may not have __close", 0},
    {"an endless close",
     "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end\n"
     "do local x <close> = t end",
     SPENT, 0},
    {"an endless close while an error passes",
     "local m = {} local t = setmetatable({}, m) m.__close = function() while true do end end\n"
     "pcall(function() local x <close> = t while true do end end)",
     SPENT, 0},
    {"no collectgarbage", "return collectgarbage('collect')",
     "attempt to call a nil value (global 'collectgarbage')", 0},
    {"poisoning the strings of all", "getmetatable('').__index.rep = print",
     "attempt to index a boolean value", 0},
    {"the metatable of strings is closed", "assert(getmetatable('') == false) row[0] = 1", NULL, 0},
    {"writing the library", "string.rep = print", "the library is read-only", 0},
    {"writing the vector library", "vec.new = print", "the library is read-only", 0},
    {"an error object with an endless tostring",
     "error(setmetatable({}, { __tostring = function() while true do end end }))",
     "error object: table", 0},
    {"a number as error", "error(12)", "error object: 12", 0},
    {"nil as error", "error(nil)", "error object: nil", 0},
    {"addresses in tostring",
     "assert(tostring({}) == 'table' and tostring(print) == 'function' and tostring(ctx) == "
     "'object')\n"
     "assert(not pcall(string.format, '%p', {})) row[0] = 1",
     NULL, 0},
    {"a format of quotes", "return ('%q'):format(1)", "'%q' is not allowed in format", 0},
    {"pairs with other keys", "for k in pairs({ [{}] = 1 }) do end",
     "only numbers and strings have an order", 0},
    {"no random numbers of its own",
     "assert(math.random == nil and math.randomseed == nil) row[0] = 1", NULL, 0},
    {"a chain of calls", "local function f(n) return 1 + f(n + 1) end return f(0)",
     "memory budget spent", 400000},
    {"deep recursion caught again and again",
     "local function f() return 1 + f() end while true do pcall(f) end", "memory budget spent",
     400000},
    {"gsub within gsub within gsub", "local function f(s) return (s:gsub('.', f)) end f('x')",
     "C stack overflow", 0},
    {"sort within sort within sort",
     "local function f() table.sort({ 1, 2 }, f) return true end f()", "C stack overflow", 0},
    {"pcall within pcall within pcall",
     "local function f() return pcall(f) == nil or pcall(f) end\n"
     "local function g() local ok, e = pcall(g) if not ok then error(e, 0) end end g()",
     "C stack overflow", 0},
    {"metamethods within metamethods",
     "local t = setmetatable({}, {}) getmetatable(t).__index = function(s, k) return s[k .. 'x'] "
     "end return t.x",
     "C stack overflow", 0},
    {"tostring within tostring",
     "local m = {} local t = setmetatable({}, m) m.__tostring = function() return tostring(t) end "
     "tostring(t)",
     "C stack overflow", 0},
    {"a pattern of deep nesting", "return ('x'):rep(300):match(('(x)'):rep(40))",
     "too many captures", 0},
    {"a pattern that recurses", "return ('x'):rep(1000):match(('x?'):rep(1000) .. ('x'):rep(1000))",
     "pattern too complex", 0},
    {"malformed patterns",
     "for _, p in ipairs { '[', '%', '[%', '(', ')', '%b', '%bx', '%f', '%1', '(()', '[a-', '[^' } "
     "do\n"
     "assert(not pcall(string.match, 'aaa(', p), p) end row[0] = 1",
     NULL, 0},
    {"an overflow while an overflow is handled (CVE-2022-33099)",
     "local function loop(x, y, z) return 1 + loop(x, y, z) end xpcall(loop, loop, 1)",
     "memory budget spent", 600000},
    {"pcall in the handler of pcall",
     "local function loop() assert(pcall(loop)) end\n"
     "assert(not xpcall(loop, loop)) row[0] = 1",
     NULL, 0},
    {"an error of a megabyte", "error(('x'):rep(1 << 20))", "xxxxxxxx", 90000},
    {"an error that steers the terminal", "error('\\27[2J\\7\\xff\\0')", "t.lua:1: ?[2J??", 0},
    {"unpack up to the last integer (CVE-2025-46817)",
     "assert(select('#', table.unpack({}, math.maxinteger - 7999, math.maxinteger)) == 8000)\n"
     "assert(not pcall(table.unpack, {}, -1, math.maxinteger)) row[0] = 1",
     NULL, 10000},
    {"upper on pieces",
     "local a = ('x'):rep(1 << 12) while true do a:upper():lower():reverse() end", SPENT, 0},
    {"characters counted", "local a = ('x'):rep(1 << 20) while true do utf8.len(a) end", SPENT, 0},
    /* --- memory ----------------------------------------------------------------------------------------------------- */
    {"a string that doubles", "local s = ('x'):rep(1000) while true do s = s .. s end",
     "memory budget spent: 8388608 bytes", 200000},
    {"a table that grows", "local t = {} for i = 1, 1e9 do t[i] = i end", "memory budget spent",
     1000000},
    {"a table that grows, caught",
     "local t = {} while true do pcall(function() for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1000) .. "
     "#t end end) end",
     "memory budget spent: 8388608 bytes", 1900000},
    {"nested tables", "local t = {} while true do t = { t, {} } end", "memory budget spent", 600000},
    {"vectors kept", "local t = {} for i = 1, 1000 do t[i] = vec.new(ctx.n_vocab) end",
     "memory budget spent", 0},
    {"vectors dropped", "for i = 1, 5000 do vec.new(ctx.n_vocab) end row[0] = 1", NULL, 60000},
    {"a vector of all memory", "vec.new(1 << 40)", "do not fit the vector pool", 0},
    {"a bitset of all memory", "bitset.new(1 << 30)", "memory budget spent", 200000},
    /* --- time by other ways ------------------------------------------------------------------------------------------- */
    {"a loop of bulk operations", "local v = vec.new(100) while true do v:add(1) end", SPENT, 0},
    {"a loop of formulas",
     "local f, v = vec.expr('pow(x, 2) + pow(x, 3)'), vec.new(1000) while true do f(v) end", SPENT,
     0},
    {"formulas read for ever", "local s = '-x' .. ('+x'):rep(100) while true do vec.expr(s) end",
     SPENT, 0},
    {"a formula of deep nesting", "vec.expr(('('):rep(4000))", "nested more than 64 deep", 0},
    {"a formula without end", "vec.expr(('x+'):rep(2000) .. 'x')", "more than 128 operations", 0},
    {"long strings compared",
     "local a = ('x'):rep(1 << 20) local b = ('x'):rep(1 << 20) while a == b do end", TIMED,
     1900000},
    {"long strings joined", "local a = ('x'):rep(1 << 20) while true do local b = a .. 'x' end",
     SPENT, 0},
    {"upper on long text", "local a = ('x'):rep(1 << 20) while true do a:upper() end", SPENT, 0},
    {"a goto that loops", "::again:: goto again", SPENT, 0},
    {"an iterator that loops", "for i in function() return 1 end do end", SPENT, 0},
    {"a numeric loop of nothing", "for i = 1, math.maxinteger do end", SPENT, 0},
    {"a float loop that never ends", "for i = 1.0, math.huge, 1e-300 do end", SPENT, 0},
    /* --- ways out ------------------------------------------------------------------------------------------------------ */
    {"nothing of the system",
     "for _, n in ipairs { 'io', 'os', 'package', 'debug', 'load', 'loadstring', "
     "'loadfile',\n"
     "'dofile', 'collectgarbage', '_G', 'next', 'rawget', 'rawset', 'newproxy', 'setfenv', "
     "'getfenv', 'bit', 'bit32', 'struct', 'cjson', 'cmsgpack', 'ffi', 'jit', 'getregistry' } do\n"
     "assert(_ENV[n] == nil, n) end assert(string.dump == nil and string.pack == nil) row[0] = 1",
     NULL, 0},
    {"package.loadlib", "return package.loadlib('x', 'y')",
     "attempt to index a nil value (global 'package')", 0},
    {"globals after loading", "leak = 1", "global 'leak' written after the script was loaded", 0},
    {"globals through _ENV", "_ENV.leak = 1", "written after the script was loaded", 0},
    {"the metatable of _ENV", "setmetatable(_ENV, {})", "cannot change a protected metatable", 0},
    {"an environment of its own", "local _ENV = { row = row } row[0] = 1", NULL, 0},
    {"a metatable of a vector",
     "assert(getmetatable(row) == false and not pcall(setmetatable, row, {})) row[0] = 1", NULL, 0},
    {"a finaliser called by hand", "return row.__gc(row)", "no method or element '__gc'", 0},
    {"the finaliser of a bitset", "return bitset.new(8).__gc", "no method '__gc'", 0},
    {"a method on another type", "bitset.new(8).set(row, 1)", "bitset expected, got cadenza.vec", 0},
    {"a method without its object", "row.add(1, 2)", "vec expected, got number", 0},
    {"a constant environment (CVE-2022-28805)",
     "local function f() local _ENV <const> = 11 X = 'hi' end f()",
     "attempt to index a number value", 0},
    {"a const that is not", "do local _ENV <const> = {} function f() end end row[0] = 1", NULL, 0},
    /* --- bad numbers ------------------------------------------------------------------------------------------------------ */
    {"token id 2^53", "row[1 << 53] = 1", "element 9007199254740992 is outside 0 to 15", 0},
    {"a negative token id", "row[-1] = 1", "element -1 is outside 0 to 15", 0},
    {"token id 0/0", "return row[0/0]", "no method or element", 0},
    {"token id -0", "row[-0.0] = 3 assert(row[0] == 3) row[0] = 1", NULL, 0},
    {"a list with 2^53", "row:mask({ 1 << 53 })", "is no token id", 0},
    {"a list with 0/0", "row:mask({ 0/0 })", "is no token id", 0},
    {"topk of 0", "row:topk(0)", "must be at least 1", 0},
    {"topk of a negative", "row:topk(math.mininteger)", "must be at least 1", 0},
    {"topk of a great many", "assert(#row:topk(math.maxinteger) == 16) row[0] = 1", NULL, 0},
    {"keep_topp of nan", "row:keep_topp(0/0)", "must be from 0 to 1", 0},
    {"keep_minp above 1", "row:keep_minp(2)", "must be from 0 to 1", 0},
    {"a filter that keeps none", "row:keep_topp(0.5, 0)", "must be at least 1", 0},
    {"a slice that overflows", "row:slice(math.maxinteger, math.maxinteger)", "slice of", 0},
    {"n-grams of a great length", "row:ngram_ban(ids, math.maxinteger)", "must be at least 1", 0},
    {"a penalty of 0", "row:penalize(ids, 'repetition', 0)", "must be above 0", 0},
    {"an unknown penalty", "row:penalize(ids, 'x', 1)", "invalid option 'x'", 0},
    {"sampling from nothing", "row:fill(0):sample(ctx.rng)", "the probabilities sum to 0", 0},
    {"a random range that is none", "ctx.rng:int(2, 1)", "must not be below the first", 0},
    {"the widest random range",
     "assert(math.type(ctx.rng:int(math.mininteger, math.maxinteger)) == 'integer') row[0] = 1",
     NULL, 0},
    {"sums of a text", "row:add('x')", "vec expected, got string", 0},
};

#endif
