-- dynamic_exit.lua - Yang et al., "Dynamic Early Exit in Reasoning Models" (2025): where a thought may turn, an answer is tried
-- behind a text that asks for one; if the geometric mean of its tokens' probabilities is high enough, thinking ends there.
return cadenza.strategy {
  id = "org.example.dynamic-exit", version = "1.0.0", one_row = true, greedy = true,
  params = {
    turn = { "%. ?$", "a Lua pattern: where a thought may turn" }, ask = { " Synonym:", "what asks for the answer" },
    sure = { 0.9, 0, 2, "mean probability from which thinking ends; above 1: never" },
    trial = { 6, 1, 1000, "tokens of the answer that is tried", integer = true },
  },
  run = function(ctx)
    local p, ask, tried = ctx.params, ctx:encode(ctx.params.ask), {}
    local thinking = true
    while not ctx:done() do
      ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1)))
      if thinking and not ctx:done() and ctx:text_tail(32):find(p.turn) then
        local trial = ctx:seq_of_row():fork():append(ask)
        local r = ctx:rollouts({ trial }, p.trial, { greedy = true })[1]
        trial:free()
        tried[#tried + 1] = math.exp(r.logprob / math.max(1, r.n_new))
        thinking = tried[#tried] < p.sure
        if not thinking then ctx:insert(ask, { shown = true, counts = true, who = "exit" }) end
      end
    end
    ctx:result("tried", { means = tried })
  end,
}
