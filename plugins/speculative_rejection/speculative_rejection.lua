-- speculative_rejection.lua - best of n, where those that look worst are given up on the way.
--
-- Sun et al., "Fast Best-of-N Decoding via Speculative Rejection" (2024): all continuations grow side by side; every so many
-- tokens a reward says what each is worth by then, and a share of them, the worst, is rejected. The reward is what the model
-- "reward" (--with reward=FOLDER) says of the continuation, as the mean log-probability of its tokens; without one it is the
-- model's own.

-- A fork of the row with what it has got: tokens, log-probability, why it ended.
local function plant(ctx, n)
  local all = {}
  ctx:forward()                                     -- the prompt, once for all
  for i = 1, n do all[i] = { place = i, seq = ctx:seq_of_row(1):fork(), n = 0, logprob = 0, stop = false } end
  return all
end

local function grow(ctx, all)
  local going, seqs = {}, {}
  for _, b in ipairs(all) do
    if not b.stop then going[#going + 1], seqs[#seqs + 1] = b, b.seq end
  end
  if #going == 0 then return false end
  for i, r in ipairs(ctx:rollouts(seqs, ctx.params.every)) do
    local b = going[i]
    b.n, b.logprob, b.stop = b.n + r.n_new, b.logprob + r.logprob, r.stop
  end
  return true
end

-- What the reward model says of it: prompt and continuation in that model's ids.
local function reward(ctx, b)
  if not ctx:vocab_size("reward") then return b.logprob / b.n end
  local ids = ctx:convert(b.seq:ids(), "target", "reward")
  local before = #ctx:convert(ctx:input_ids(), "target", "reward")
  if #ids <= before or before == 0 then return -math.huge end
  local seq = ctx:seq_new("reward"):append(ids)
  local value = ctx:seq_score(seq, #ids - before)[1] / (#ids - before)
  seq:free()
  return value
end

-- The best by value, of equal ones the first; the others are given up.
local function reject(ctx, all)
  for _, b in ipairs(all) do b.value = reward(ctx, b) end
  table.sort(all, function(a, b)
    if a.value ~= b.value then return a.value > b.value end
    return a.place < b.place
  end)
  local keep = math.max(1, math.ceil(#all * (1 - ctx.params.alpha)))
  for i = #all, keep + 1, -1 do all[i].seq:free() all[i] = nil end
end

local function run(ctx)
  local all, left, at = plant(ctx, ctx.params.n), {}, #ctx:input_ids()
  while grow(ctx, all) do
    reject(ctx, all)
    left[#left + 1] = #all
  end
  local ids = {}
  for i, id in ipairs(all[1].seq:ids():totable()) do if i > at then ids[#ids + 1] = id end end
  ctx:append_chunk(1, ids)
  ctx:result("best", { all[1].place }, "int64")
  ctx:result("value", { all[1].value }, "float32")
  ctx:result("left", left, "int64")
end

return cadenza.strategy {
  id = "speculative_rejection", version = "1.0.0", one_row = true, samples = true,
  summary = "Best of n, giving up those that look worst on the way",
  params = {
    n     = { 8, 1, 256, "continuations to begin with", integer = true },
    alpha = { 0.5, 0, 0.99, "share that is rejected each time" },
    every = { 8, 1, 100000, "tokens between two judgements", integer = true },
  },
  run = run,
}
