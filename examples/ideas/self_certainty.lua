-- self_certainty.lua - Kang, Zhao and Song, "Scalable Best-of-N Selection for Large Language Models via Self-Certainty" (2025): of n
-- answers the one during which the next token's distribution lay furthest from a uniform one: the mean of KL(uniform, p), which
-- is logsumexp - mean - log V of the logits.
return cadenza.strategy {
  id = "org.example.self-certainty", version = "1.0.0", one_row = true, samples = true,
  params = { n = { 4, 1, 64, "answers", integer = true } },
  run = function(ctx)
    local at, answers, values, best = #ctx:input_ids(), {}, {}, 1
    ctx:forward()
    for i = 1, ctx.params.n do answers[i] = ctx:seq_of_row():fork() end
    ctx:rollouts(answers, ctx.max_length)
    for i, answer in ipairs(answers) do
      local ids = answer:ids():totable()
      local scores, sum = ctx:seq_forward({ ctx:seq_new():append(ids) }, "all"), 0
      for k = at, #ids - 1 do sum = sum + scores:row(k):logsumexp() - scores:row(k):mean() - math.log(ctx.n_vocab) end
      values[i] = sum / (#ids - at)
      if values[i] > values[best] then best = i end
    end
    ctx:append_chunk(1, answers[best]:ids():totable(at + 1, #answers[best]))
    ctx:result("values", values, "float32")
  end,
}
