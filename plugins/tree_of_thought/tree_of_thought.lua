-- tree_of_thought.lua - thoughts that branch, are judged, and of which the best are thought on.
--
-- Yao et al., "Tree of Thoughts: Deliberate Problem Solving with Large Language Models" (2023), breadth first (their algorithm
-- 1): from each state that is kept `thoughts` thoughts are drawn, all side by side in one pass a token; a judge says what each
-- state is worth by then; the best `breadth` are kept. After `depth` thoughts the best state is written on to its end. The judge
-- is asked a question that is answered by yes or no: judge.lua.

local judge = require "judge"

-- Forks of the states that go on; one that has ended stays as it is.
local function branch(states, n)
  local all = {}
  for _, s in ipairs(states) do
    for _ = 1, s.stop and 1 or n do
      all[#all + 1] = { seq = s.seq:fork(), text = "", stop = s.stop, worth = s.worth, place = #all + 1 }
    end
    s.seq:free()
  end
  return all
end

-- A token more for each whose thought has not ended; false: there is none.
local function grow(ctx, all)
  local going, seqs = {}, {}
  for _, t in ipairs(all) do
    if not t.stop and not t.text:find(ctx.params.ends) then going[#going + 1], seqs[#seqs + 1] = t, t.seq end
  end
  if #going == 0 then return false end
  for i, r in ipairs(ctx:rollouts(seqs, 1)) do
    local t, ids = going[i], seqs[i]:ids()
    t.stop, t.text = r.stop, t.text .. (ctx:token_text(ids[#ids]) or "")
  end
  return true
end

-- The best by worth, of equal ones the first; the others are given up.
local function keep(all, values, n)
  local texts = {}
  for i, t in ipairs(all) do texts[i] = t.seq:ids():totable() end
  for i, worth in ipairs(values(texts)) do all[i].worth = worth end
  table.sort(all, function(a, b)
    if a.worth ~= b.worth then return a.worth > b.worth end
    return a.place < b.place
  end)
  for i = #all, n + 1, -1 do all[i].seq:free() all[i] = nil end
  return all
end

local function run(ctx)
  local p, at, kept, shares = ctx.params, #ctx:input_ids(), {}, {}
  local values = judge(ctx)
  ctx:forward()                                     -- the prompt, once for all
  local states = { { seq = ctx:seq_of_row(1):fork() } }
  for step = 1, p.depth do
    local all = branch(states, p.thoughts)
    for _ = 1, p.most do if not grow(ctx, all) then break end end
    states = keep(all, values, p.breadth)
    kept[step], shares[step] = states[1].place, 1 / (1 + math.exp(-states[1].worth))
    if states[1].stop then break end
  end
  local ids, chosen = states[1].seq:ids(), {}
  for i = at + 1, #ids do chosen[#chosen + 1] = ids[i] end
  ctx:append_chunk(1, chosen)
  while not ctx:done() do ctx:append(ctx:multinomial(ctx:softmax(ctx:process(ctx:forward())))) end
  ctx:result("best", kept, "int64")
  ctx:result("value", shares, "float32")
end

return cadenza.strategy {
  id = "tree_of_thought", version = "1.0.0", one_row = true, samples = true,
  summary = "Think in branches, have them judged, and think on from the best",
  params = {
    thoughts = { 4, 1, 256, "thoughts that are drawn from a state", integer = true },
    breadth  = { 2, 1, 256, "states that are kept", integer = true },
    depth    = { 3, 1, 1000, "thoughts one after the other", integer = true },
    most     = { 32, 1, 10000, "tokens of a thought", integer = true },
    ends     = { "[.\n]%s*$", "a Lua pattern: a thought that it finds has ended" },
    question = { "\nIs this right so far? Answer:", "what the judge is asked behind prompt and thoughts" },
    yes      = { " yes", "its first token is the answer that counts for a state" },
    no       = { " no", "and against it" },
    label    = { -1, -1, 65535, "of a judge that is a classifier: the label that counts, from 0; -1: the last", integer = true },
  },
  run = run,
}
