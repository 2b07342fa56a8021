-- semantic_entropy.lua - Farquhar et al., "Detecting hallucinations in large language models using semantic entropy" (2024), the
-- discrete form: how many different things n draws mean. Two mean the same here if a pattern finds the same in them, where the
-- paper asks a model whether each follows from the other. The answer is the greedy one.
return cadenza.strategy {
  id = "org.example.semantic-entropy", version = "1.0.0", one_row = true, samples = true,
  params = {
    n = { 6, 1, 64, "draws", integer = true }, most = { 12, 1, 10000, "tokens of each", integer = true },
    pattern = { "%a+ %a+", "a Lua pattern: what a draw means" },
  },
  run = function(ctx)
    local p, at, seqs, count, entropy = ctx.params, #ctx:input_ids(), {}, {}, 0
    ctx:forward()
    for i = 1, p.n do seqs[i] = ctx:seq_of_row():fork() end
    ctx:rollouts(seqs, p.most)
    for _, seq in ipairs(seqs) do
      local says = ctx:decode(seq:ids():totable(at + 1, #seq), true):match(p.pattern) or ""
      count[says] = (count[says] or 0) + 1
      seq:free()
    end
    for _, n in pairs(count) do entropy = entropy - n / p.n * math.log(n / p.n) end
    while not ctx:done() do ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))) end
    ctx:result("meanings", count)
    ctx:result("entropy", { entropy }, "float32")
  end,
}
