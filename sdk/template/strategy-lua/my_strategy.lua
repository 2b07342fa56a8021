-- my_strategy.lua - greedy decoding that never takes one token.
return cadenza.strategy {
  id = "org.example.my-strategy", version = "0.1.0",
  summary = "Greedy decoding that never takes one token",
  greedy = true,
  params = { avoid = { type = "integer", optional = true, min = 0, max = 2147483647,
                       help = "id of the token that is never taken" } },
  run = function(ctx)
    local avoid = ctx.params.avoid
    if avoid and avoid >= ctx.n_vocab then
      error("token " .. avoid .. " is not in the vocabulary of " .. ctx.n_vocab)
    end
    while not ctx:done() do
      local scores = ctx:forward()         -- runs whatever the KV cache lacks
      ctx:process(scores)                  -- the processors of the user's pipeline
      for r = 1, avoid and ctx.n_rows or 0 do ctx:ban(scores, r, avoid) end
      ctx:append(ctx:argmax(scores))       -- one token for every row: streams them, asks the stop rules
    end
  end,
}
