-- best_by_critic.lua - best of n, chosen by another model: the mean log-probability that it gives each answer.
return cadenza.strategy {
  id = "org.example.best-by-critic", version = "1.0.0", one_row = true, samples = true,
  params = { n = { 4, 1, 64, "answers", integer = true } },
  run = function(ctx)
    local at, answers, values, best = #ctx:input_ids(), {}, {}, 1
    ctx:forward()
    for i = 1, ctx.params.n do answers[i] = ctx:seq_of_row():fork() end
    ctx:rollouts(answers, ctx.max_length)
    for i, answer in ipairs(answers) do
      local ids = ctx:convert(answer:ids(), "target", "critic")
      local n = #ids - #ctx:convert(ctx:input_ids(), "target", "critic")
      values[i] = ctx:seq_score(ctx:seq_new("critic"):append(ids), n)[1] / n
      if values[i] > values[best] then best = i end
    end
    local ids = answers[best]:ids()
    ctx:append_chunk(1, ids:totable(at + 1, #ids))
    ctx:result("values", values, "float32")
  end,
}
