-- multiple_choice.lua - answer with one of the given texts, and say how probable the model finds each.
--
-- What evaluation harnesses do (Brown et al., "Language Models are Few-Shot Learners", 2020; Gao et al., lm-evaluation-harness):
-- every choice is put after the prompt, its tokens' log-probabilities are added up, and the sums, or means, are compared.
-- All choices are forks of the row and are run side by side; the probabilities are the model's own, without processors.

local function forks(ctx, choices)
  local all = {}
  for i, text in ipairs(choices) do
    local ids = ctx:encode(text)
    if #ids == 0 then error("choices: choice " .. i .. " has no tokens") end
    all[i] = { ids = ids, logprob = 0, seq = ctx:seq_of_row(1):fork() }
  end
  return all
end

-- Adds up the choices' tokens, one of each in every pass.
local function score(ctx, all)
  local scores = ctx:log_softmax(ctx:forward())
  for _, c in ipairs(all) do c.logprob = scores:row(1)[c.ids[1]] end
  local at, live = 1, all
  while true do
    local going, seqs = {}, {}
    for _, c in ipairs(live) do
      if #c.ids > at then
        c.seq:append(c.ids[at])
        going[#going + 1], seqs[#seqs + 1] = c, c.seq
      end
    end
    if #going == 0 then return end
    at, live = at + 1, going
    local rows = ctx:log_softmax(ctx:seq_forward(seqs, "last"))
    for i, c in ipairs(going) do c.logprob = c.logprob + rows:row(i)[c.ids[at]] end
  end
end

-- A choice by its share: the greatest, or drawn.
local function choose(ctx, shares)
  local best, left = 1, ctx.do_sample and ctx:uniform()
  for i, share in ipairs(shares) do
    if left then
      best, left = i, left - share
      if left < 0 then return i end
    elseif share > shares[best] then
      best = i
    end
  end
  return best
end

local function run(ctx)
  local p, values, most = ctx.params, {}, -math.huge
  local all = forks(ctx, p.choices)
  score(ctx, all)
  for i, c in ipairs(all) do
    values[i] = p.mean and c.logprob / #c.ids or c.logprob
    most = math.max(most, values[i])
  end
  local shares, total = {}, 0
  for i, v in ipairs(values) do
    shares[i] = math.exp(v - most)
    total = total + shares[i]
  end
  for i = 1, #shares do shares[i] = shares[i] / total end
  local best = choose(ctx, shares)
  ctx:append_chunk(1, all[best].ids)
  if not ctx:row_done(1) then ctx:finish("choice") end
  ctx:result("choice", { best }, "int64")
  ctx:result("logprobs", values, "float32")
  ctx:result("probabilities", shares, "float32")
end

return cadenza.strategy {
  id = "multiple_choice", version = "1.0.0", one_row = true,
  summary = "Answer with one of the given texts, and report the probability of each",
  params = {
    choices = { type = "strings", help = "the texts; after a prompt they usually begin with a space" },
    mean    = { false, "compare log-probability per token, for choices of unlike length" },
  },
  create = function(p)
    if not p.choices or #p.choices == 0 then error("needs choices = [\" this\", \" that\"]") end
  end,
  run = run,
}
