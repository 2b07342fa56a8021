-- mbr.lua - draw n continuations and give the one that agrees most with the others.
--
-- Minimum Bayes risk decoding: Kumar and Byrne (2004); with samples for hypotheses and evidence Eikema and Aziz, "Is MAP
-- Decoding All You Need?" (2020). Agreement is the F1 of tokens: twice what two continuations have in common, however
-- ordered, over their lengths added. All n grow side by side, each a fork of the row.

-- n forks of the row with what was drawn for each: { seq, ids, reason }.
local function samples(ctx, n)
  ctx:forward()                              -- the prompt, once for all
  local all = {}
  for i = 1, n do all[i] = { seq = ctx:seq_of_row(1):fork(), ids = {} } end
  return all
end

-- One more token for each that goes on.
local function step(ctx, all)
  local live, seqs, rows = {}, {}, {}
  for _, s in ipairs(all) do
    if not s.reason then live[#live + 1], seqs[#seqs + 1], rows[#rows + 1] = s, s.seq, 1 end
  end
  if #live == 0 then return false end
  local probs = ctx:softmax(ctx:seq_process(seqs, rows, ctx:seq_forward(seqs, "last")))
  for i, token in ipairs(ctx:multinomial(probs)) do
    local s = live[i]
    s.ids[#s.ids + 1] = token
    s.reason = ctx:stop_test({ s.ids }, { 1 })[1]
    if s.reason then s.seq:free() else s.seq:append(token) end
  end
  return true
end

local function count(ids)
  local counts = {}
  for _, id in ipairs(ids) do counts[id] = (counts[id] or 0) + 1 end
  return counts
end

local function f1(a, b)
  local common = 0
  for id, n in pairs(a.counts) do common = common + math.min(n, b.counts[id] or 0) end
  return 2 * common / (#a.ids + #b.ids)
end

local function run(ctx)
  local all, best, values = samples(ctx, ctx.params.n), nil, {}
  while step(ctx, all) do end
  for i, s in ipairs(all) do s.counts, values[i] = count(s.ids), 0 end
  for i, a in ipairs(all) do
    for j, b in ipairs(all) do
      if i ~= j then values[i] = values[i] + f1(a, b) / (#all - 1) end
    end
  end
  for i, v in ipairs(values) do
    if not best or v > values[best] + 1e-12 then best = i end
  end
  ctx:append_chunk(1, all[best].ids)
  ctx:result("best", { best }, "int64")
  ctx:result("agreement", values, "float32")
end

return cadenza.strategy {
  id = "mbr", version = "1.0.0", one_row = true, samples = true,
  summary = "Draw n continuations and return the one that agrees most with the others",
  params = {
    n = { 8, 1, 256, "continuations to draw", integer = true },
  },
  run = run,
}
