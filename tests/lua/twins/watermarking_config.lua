-- watermarking_config.lua - write a watermark into the choice of tokens, for a detector that knows the settings: green lists
-- (Kirchenbauer et al., 2023) and SynthID (Dathathri et al., 2024). Words of 32 bits are kept in Lua's 64-bit integers.
-- The table of selfhash has a million entries: it needs budget_memory = 67108864.
local WORD, TABLE, PROBES = 0xffffffff, 1000003, 40
local permuted, bits -- what begin works out: the table of selfhash, the bits of SynthID

-- A Mersenne Twister as torch's; returns the function that draws.
local function twister(seed)
  local s, at = { [0] = seed & WORD }, 0
  for i = 1, 623 do s[i] = (1812433253 * (s[i - 1] ~ (s[i - 1] >> 30)) + i) & WORD end
  return function()
    local y = (s[at] & 0x80000000) | (s[(at + 1) % 624] & 0x7fffffff)
    local x = s[(at + 397) % 624] ~ (y >> 1) ~ (y % 2 == 1 and 0x9908b0df or 0)
    s[at], at = x, (at + 1) % 624
    x = x ~ (x >> 11)
    x = x ~ ((x << 7) & 0x9d2c5680)
    x = x ~ ((x << 15) & 0xefc60000)
    return x ~ (x >> 18)
  end
end

-- The first `head` entries of torch.randperm(n), from place 0; what was never moved is not kept.
local function permute(seed, n, head)
  local draw, out = twister(seed), {}
  for i = 0, head >= n and n - 1 or -1 do out[i] = i end -- in order: a plain array
  for i = 0, math.min(head, n - 1) - 1 do
    local z = i + draw() % (n - i)
    out[i], out[z] = out[z] or z, out[i] or i
  end
  return out
end

-- --- green lists --------------------------------------------------------------------------------------------------------

-- Low word of key * id mod 2^64 - 1.
local function left_seed(key, id)
  local low, high = (key & WORD) * id, (key >> 32) * id
  local shifted = high << 32
  local sum = low + shifted
  local carry = (high >> 32) + (math.ult(sum, low) and 1 or 0)
  sum = sum + carry
  if math.ult(sum, carry) then sum = sum + 1 end
  return sum == -1 and 0 or sum & WORD
end

-- Low word of the least key * (T[w] + 1) * (T[last] + 1); a negative one is taken mod 2^64 - 1.
local function self_seed(key, width, ids, last)
  local function entry(id) return permuted[id % TABLE] + 1 end
  local least = math.maxinteger
  for i = math.max(1, #ids + 2 - width), #ids do least = math.min(least, key * entry(ids[i]) * entry(last)) end
  least = math.min(least, key * entry(last) * entry(last))
  return (least < 0 and least - 1 or least) & WORD
end

local function is_green(seed, ctx, id)
  local head = permute(seed, ctx.n_vocab, ctx.state.n_green)
  for i = 0, ctx.state.n_green - 1 do
    if (head[i] or i) == id then return true end
  end
end

local function favour_self(p, ids, row, ctx)
  local probes = row:topk(PROBES)
  for i = 1, PROBES do
    if is_green(self_seed(p.hashing_key, p.context_width, ids, probes[i]), ctx, probes[i]) then
      row:add({ probes[i] }, p.bias)
    end
  end
end

local function favour(p, ids, row, ctx)
  if #ids < p.context_width or #ids == 0 then return end
  if p.seeding_scheme == "selfhash" then return favour_self(p, ids, row, ctx) end
  local n = ctx.state.n_green
  local head = permute(left_seed(p.hashing_key, ids[#ids]), ctx.n_vocab, n)
  local green = {}
  for i = 0, n - 1 do green[i + 1] = head[i] or i end
  row:add(green, p.bias)
end

-- --- SynthID ----------------------------------------------------------------------------------------------------------------

local play = vec.expr("x * (1 + g - mass)", { "g", "mass" })
local finite = vec.expr("x > -inf and x < inf ? x : -3.4028234663852886e38")

local function fold(hash, value) return (hash + value) * 6364136223846793005 + 1 end

-- The context of call `call` (from 0): the ngram_len - 1 generated ids before its token, zeros where there are none.
local function context_hash(p, ids, prompt, call)
  local hash = 1
  for i = p.ngram_len - 1, 1, -1 do hash = fold(hash, call >= i and ids[prompt + call - i + 1] or 0) end
  return hash
end

local function repeated(p, ids, prompt, calls, from, hash)
  local looked = calls - from
  if hash == 0 and looked < p.context_history_size then return true end
  for i = 1, math.min(looked, p.context_history_size) do
    if context_hash(p, ids, prompt, calls - i) == hash then return true end
  end
end

local function tournament(p, row, context)
  local size = p.sampling_table_size
  local g = vec.new(#row, 0)
  for _, key in ipairs(p.keys) do
    for id = 0, #row - 1 do g[id] = bits[fold(fold(context, id), key) % size + 1] end
    row:apply(play, g, g:dot(row))
  end
end

local function mark(p, ids, row, ctx)
  local prompt = math.min(#ids, ctx.prompt_len)
  local calls = #ids - prompt
  local from = p.skip_first_ngram_calls and p.ngram_len - 1 or 0
  if p.debug_mode then row:fill(1) end
  if calls + 1 < p.ngram_len and p.skip_first_ngram_calls then return end
  local context = context_hash(p, ids, prompt, calls)
  if repeated(p, ids, prompt, calls, math.min(from, calls), context) then return end
  row:softmax()
  tournament(p, row, context)
  row:log():apply(finite)
end

-- --- the processor -----------------------------------------------------------------------------------------------------------

return cadenza.processor {
  id = "watermarking_config", version = "1.0.0",
  params = {
    type = { "greenlist", "the kind of watermark", words = { "greenlist", "synthid" } },
    greenlist_ratio = { 0.25, 0, 1, "green list: share of the vocabulary" },
    bias = { 2.0, help = "green list: added to the scores of green tokens" },
    hashing_key = { 15485863, 0, help = "green list: the secret", integer = true },
    seeding_scheme = { "lefthash", "green list: whether a token takes part in choosing its own list", words = { "lefthash", "selfhash" } },
    context_width = { 1, 1, 16777216, "green list: ids that choose the list of selfhash", integer = true },
    ngram_len = { 0, 0, 16777216, "synthid: the token and the ids before it", integer = true },
    keys = { type = "integers", help = "synthid: the secrets, one a layer of the tournament" },
    context_history_size = { 1024, 0, 16777216, "synthid: contexts looked back over for repeats", integer = true },
    sampling_table_seed = { 0, help = "synthid: seed of the table of g-values", integer = true },
    sampling_table_size = { 65536, 1, 16777216, "synthid: entries of the table of g-values", integer = true },
    skip_first_ngram_calls = { false, "synthid: leave the first ngram_len - 1 tokens alone" },
    debug_mode = { false, "synthid: take every score as one" },
  },
  create = function(p)
    if p.type == "greenlist" then
      if not (p.greenlist_ratio > 0 and p.greenlist_ratio < 1) then
        error("greenlist_ratio must be above 0 and below 1 to mark anything", 0)
      end
    elseif p.ngram_len == 0 then
      error("type = synthid needs ngram_len, 5 for example", 0)
    elseif not p.keys or #p.keys == 0 then
      error("type = synthid needs keys, a list of secret integers", 0)
    end
  end,
  begin = function(ctx)
    local p, state = ctx.params, {}
    state.n_green = math.floor(ctx.n_vocab * p.greenlist_ratio)
    if p.type == "greenlist" and p.seeding_scheme == "selfhash" then
      if ctx.n_vocab < PROBES then
        error(("seeding_scheme = selfhash looks at %d candidates, but the vocabulary has %d tokens"):format(PROBES, ctx.n_vocab))
      end
      permuted = permute(p.hashing_key, TABLE, TABLE)
    elseif p.type == "synthid" then
      local draw = twister(p.sampling_table_seed)
      bits = {}
      for i = 1, p.sampling_table_size do bits[i] = draw() % 2 end
    end
    return state
  end,
  apply = function(p, ids, row, ctx)
    if p.type == "synthid" then mark(p, ids, row, ctx) else favour(p, ids, row, ctx) end
  end,
}
