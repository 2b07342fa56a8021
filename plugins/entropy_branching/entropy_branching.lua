-- entropy_branching.lua - greedy decoding that tries several ways where the model does not know which to take.
--
-- After Li et al., "Entropy-Aware Branching for Improved Mathematical Reasoning" (2025): where the entropy of the next token
-- is high, the sequence forks into its likeliest tokens; elsewhere every branch takes the best. The paper has a larger model
-- judge the branches; here it is the model itself, by log-probability per token. Branches share the cache of what they have
-- in common and grow in one pass a step.

local function new_branch(seq) return { seq = seq, ids = {}, logprob = 0 } end

local function copy_branch(b)
  return { seq = b.seq:fork(), ids = table.move(b.ids, 1, #b.ids, 1, {}), logprob = b.logprob }
end

local function extend(ctx, b, token, logprob)
  b.ids[#b.ids + 1] = token
  b.logprob = b.logprob + logprob
  b.reason = ctx:stop_test({ b.ids }, { 1 })[1]
  if b.reason then b.seq:free() else b.seq:append(token) end
end

-- The tokens a branch goes on with: the best, and where the entropy says so as many as there is room for.
local function ways(p, row, room)
  local k = 1
  if row:entropy() > p.threshold then k = math.min(p.width, room + 1) end
  return row:topk(k)
end

local function step(ctx, all)
  local live, seqs, rows = {}, {}, {}
  for _, b in ipairs(all) do
    if not b.reason then live[#live + 1], seqs[#seqs + 1], rows[#rows + 1] = b, b.seq, 1 end
  end
  if #live == 0 then return false end
  local scores = ctx:log_softmax(ctx:seq_process(seqs, rows, ctx:seq_forward(seqs, "last")))
  for i, b in ipairs(live) do
    local row = scores:row(i)
    local tokens = ways(ctx.params, row, ctx.params.branches - #all)
    local twins = { b }
    for k = 2, #tokens do
      twins[k] = copy_branch(b)
      all[#all + 1] = twins[k]
    end
    for k, twin in ipairs(twins) do extend(ctx, twin, tokens[k], row[tokens[k]]) end
  end
  return true
end

local function run(ctx)
  ctx:forward()                              -- the prompt, once for all
  local all, best, values, lengths = { new_branch(ctx:seq_of_row(1):fork()) }, nil, {}, {}
  while step(ctx, all) do end
  for i, b in ipairs(all) do
    values[i], lengths[i] = b.logprob / (#b.ids) ^ ctx.params.length_penalty, #b.ids
    if not best or values[i] > values[best] then best = i end
  end
  ctx:append_chunk(1, all[best].ids)
  ctx:result("best", { best }, "int64")
  ctx:result("values", values, "float32")
  ctx:result("lengths", lengths, "int64")
end

return cadenza.strategy {
  id = "entropy_branching", version = "1.0.0", one_row = true, greedy = true,
  summary = "Greedy decoding that branches where the entropy is high",
  params = {
    threshold      = { 2.0, 0, 100, "entropy in nats above which a branch forks" },
    width          = { 2, 2, 64, "branches of a fork", integer = true },
    branches       = { 6, 1, 256, "largest number of branches", integer = true },
    length_penalty = { 1.0, 0, 10, "log-probability is divided by length^this; 0: the sum, 1: the mean" },
  },
  run = run,
}
