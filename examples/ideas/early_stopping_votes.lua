-- early_stopping_votes.lua - Li et al., "Escape Sky-high Cost: Early-stopping Self-Consistency for Multi-step Reasoning" (2024): answers
-- are drawn a window at a time, until all of a window agree; else the most frequent of all wins.
return cadenza.strategy {
  id = "org.example.early-stopping-votes", version = "1.0.0", one_row = true, samples = true,
  params = {
    window = { 3, 1, 64, "answers at once", integer = true }, windows = { 4, 1, 64, "of these at most", integer = true },
    pattern = { "%a+", "a Lua pattern: what an answer says" },
  },
  run = function(ctx)
    local p, at, votes, said, best = ctx.params, #ctx:input_ids(), {}, {}, nil
    ctx:forward()
    for _ = 1, p.windows do
      local seqs, agree = {}, true
      for i = 1, p.window do seqs[i] = ctx:seq_of_row():fork() end
      ctx:rollouts(seqs, ctx.max_length)
      for i, seq in ipairs(seqs) do
        local ids = seq:ids():totable(at + 1, #seq)
        local says = ctx:decode(ids, true):match(p.pattern) or ""
        said[#said + 1] = says
        votes[says] = votes[says] or { n = 0, ids = ids }
        votes[says].n = votes[says].n + 1
        agree = agree and says == said[#said - i + 1]
        if not best or votes[says].n > best.n then best = votes[says] end
        seq:free()
      end
      if agree then best = votes[said[#said]] break end
    end
    ctx:append_chunk(1, best.ids)
    ctx:result("said", { all = said })
  end,
}
