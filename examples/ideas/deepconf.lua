-- deepconf.lua - Fu et al., "Deep Think with Confidence" (2025), offline: n answers vote, each with the weight of its confidence,
-- after those of least confidence have been left out. A token's confidence is the mean of -log p of its k likeliest rivals; an
-- answer's is that of its least confident window.
local function confidence(ctx, answer, at)
  local p, ids = ctx.params, answer:ids():totable()
  local scores, each, least = ctx:seq_forward({ ctx:seq_new():append(ids) }, "all"), {}, math.huge
  for k = at, #ids - 1 do
    local _, top = scores:row(k):copy():log_softmax():topk(p.k)
    local sum = 0
    for i = 1, p.k do sum = sum - top[i] end
    each[#each + 1] = sum / p.k
  end
  local window = math.min(p.window, #each)
  for from = 1, #each - window + 1 do
    local sum = 0
    for i = from, from + window - 1 do sum = sum + each[i] end
    least = math.min(least, sum / window)
  end
  return least
end

return cadenza.strategy {
  id = "org.example.deepconf", version = "1.0.0", one_row = true, samples = true,
  params = {
    n = { 6, 1, 64, "answers", integer = true },
    k = { 5, 1, 100, "likeliest tokens of a step", integer = true }, window = { 8, 1, 10000, "tokens", integer = true },
    keep = { 0.5, 0, 1, "share of the answers that vote" }, pattern = { "%a+", "a Lua pattern: what an answer votes for" },
  },
  run = function(ctx)
    local p, at, seqs, answers, votes, best = ctx.params, #ctx:input_ids(), {}, {}, {}, nil
    ctx:forward()
    for i = 1, p.n do seqs[i] = ctx:seq_of_row():fork() end
    ctx:rollouts(seqs, ctx.max_length)
    for i, seq in ipairs(seqs) do
      local ids = seq:ids():totable(at + 1, #seq)
      answers[i] = { ids = ids, place = i, says = ctx:decode(ids, true):match(p.pattern) or "", sure = confidence(ctx, seq, at) }
    end
    table.sort(answers, function(a, b) return a.sure > b.sure or a.sure == b.sure and a.place < b.place end)
    for i = 1, math.max(1, math.ceil(p.n * p.keep)) do
      local a = answers[i]
      votes[a.says] = (votes[a.says] or 0) + a.sure
    end
    for _, a in ipairs(answers) do
      if votes[a.says] and (not best or votes[a.says] > votes[best.says]) then best = a end
    end
    ctx:append_chunk(1, best.ids)
    local all = {}
    for i, a in ipairs(answers) do all[i] = { says = a.says, sure = a.sure } end
    ctx:result("answers", all)
  end,
}
