-- best_of_n.lua - draw n continuations and give the one that the model itself finds likeliest.
--
-- Stiennon et al., "Learning to summarize from human feedback" (2020), call it best-of-n; OpenAI's completions API has it as
-- best_of, by log-probability per token. All n grow side by side, each a fork of the row, so the prompt is computed once and
-- every step is one pass. Log-probabilities are those the token was drawn from: after the pipeline's processors.

-- n forks of the row with what was drawn for each: { seq, ids, logprob, reason }.
local function samples(ctx, n)
  ctx:forward()                              -- the prompt, once for all
  local all = {}
  for i = 1, n do all[i] = { seq = ctx:seq_of_row(1):fork(), ids = {}, logprob = 0 } end
  return all
end

local function alive(all)
  local live, seqs, rows = {}, {}, {}
  for _, s in ipairs(all) do
    if not s.reason then live[#live + 1], seqs[#seqs + 1], rows[#rows + 1] = s, s.seq, 1 end
  end
  return live, seqs, rows
end

-- One more token for each that goes on.
local function step(ctx, all)
  local live, seqs, rows = alive(all)
  if #live == 0 then return false end
  local probs = ctx:softmax(ctx:seq_process(seqs, rows, ctx:seq_forward(seqs, "last")))
  for i, token in ipairs(ctx:multinomial(probs)) do
    local s = live[i]
    s.logprob = s.logprob + math.log(probs:row(i)[token])
    s.ids[#s.ids + 1] = token
    s.reason = ctx:stop_test({ s.ids }, { 1 })[1]
    if s.reason then s.seq:free() else s.seq:append(token) end
  end
  return true
end

local function value(s, length_penalty) return s.logprob / (#s.ids) ^ length_penalty end

local function run(ctx)
  local p, best = ctx.params, nil
  local all = samples(ctx, p.n)
  while step(ctx, all) do end
  local values = {}
  for i, s in ipairs(all) do
    values[i] = value(s, p.length_penalty)
    if not best or values[i] > values[best] then best = i end
  end
  ctx:append_chunk(1, all[best].ids)
  ctx:result("best", { best }, "int64")
  ctx:result("values", values, "float32")
end

return cadenza.strategy {
  id = "best_of_n", version = "1.0.0", one_row = true, samples = true,
  summary = "Draw n continuations and return the likeliest",
  params = {
    n              = { 4, 1, 256, "continuations to draw", integer = true },
    length_penalty = { 1.0, 0, 10, "log-probability is divided by length^this; 0: the sum, 1: the mean" },
  },
  run = run,
}
