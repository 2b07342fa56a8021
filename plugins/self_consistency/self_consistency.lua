-- self_consistency.lua - draw n continuations, look for the answer in each, and give one that has the answer most have.
--
-- Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (2022): reasoning may go many ways,
-- the right answer is where most of them arrive. All n grow side by side, each a fork of the row. Of those with the answer
-- that won the likeliest per token is given.

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

-- What the last match of the pattern says, its first capture if it has one, without spaces at both ends; nil: no answer.
local function answer(text, pattern)
  local found
  for a in text:gmatch(pattern) do found = a end
  return found and found:lower():match("^%s*(.-)%s*$")
end

-- The answer most have; of equals the one that was drawn first. Nil when there is none.
local function elect(all)
  local votes, best = {}, nil
  for _, s in ipairs(all) do
    if s.answer then votes[s.answer] = (votes[s.answer] or 0) + 1 end
  end
  for _, s in ipairs(all) do
    if s.answer and (not best or votes[s.answer] > votes[best]) then best = s.answer end
  end
  return best, votes
end

local function run(ctx)
  local p, best = ctx.params, nil
  local all = samples(ctx, p.n)
  while step(ctx, all) do end
  for _, s in ipairs(all) do s.answer = answer(ctx:decode(s.ids, true), p.pattern) end
  local won, votes = elect(all)
  local counts = {}
  for i, s in ipairs(all) do
    counts[i] = s.answer and votes[s.answer] or 0
    local mean = s.logprob / #s.ids
    if s.answer == won and (not best or mean > best.mean) then best = { ids = s.ids, mean = mean, index = i } end
  end
  ctx:append_chunk(1, best.ids)
  ctx:result("chosen", { best.index }, "int64")
  ctx:result("votes", counts, "int64")
  ctx:log((won and votes[won] or 0) .. " of " .. p.n .. " say: " .. (won or "nothing"))
end

return cadenza.strategy {
  id = "self_consistency", version = "1.0.0", one_row = true, samples = true,
  summary = "Draw n continuations and return one with the most frequent answer",
  params = {
    n       = { 5, 1, 256, "continuations to draw", integer = true },
    pattern = { ".+", "a Lua pattern; the answer is its last match, or that match's first capture" },
  },
  run = run,
}
