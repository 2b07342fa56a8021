-- soft_best_of_n.lua - Verdun et al., "Soft Best-of-n Sampling for Model Alignment" (2025): of n answers one is drawn with a
-- probability in proportion to exp(reward / lambda): lambda towards 0 is best of n, a great lambda the model itself. The reward
-- is the mean log-probability that another model gives.
return cadenza.strategy {
  id = "org.example.soft-best-of-n", version = "1.0.0", one_row = true, samples = true,
  params = {
    n = { 4, 1, 64, "answers", integer = true },
    lambda = { 0.5, 0, 1e9, "how soft", above_min = true },
  },
  run = function(ctx)
    local at, answers, rewards = #ctx:input_ids(), {}, {}
    ctx:forward()
    for i = 1, ctx.params.n do answers[i] = ctx:seq_of_row():fork() end
    ctx:rollouts(answers, ctx.max_length)
    for i, answer in ipairs(answers) do
      local ids = ctx:convert(answer:ids(), "target", "critic")
      local n = #ids - #ctx:convert(ctx:input_ids(), "target", "critic")
      rewards[i] = ctx:seq_score(ctx:seq_new("critic"):append(ids), n)[1] / n
    end
    local shares = vec.from(rewards):div(ctx.params.lambda):softmax()
    local u, chosen, reached = ctx:uniform(), ctx.params.n, 0
    for i = 1, ctx.params.n do
      reached = reached + shares[i - 1]
      if u < reached then chosen = i break end
    end
    ctx:append_chunk(1, answers[chosen]:ids():totable(at + 1, #answers[chosen]))
    ctx:result("rewards", rewards, "float32")
    ctx:result("chosen", { chosen }, "int64")
  end,
}
