-- Writes the tokens of a list in turn, and the list may be empty.
return cadenza.strategy {
  id = "bad.plugin", version = "1.0.0", summary = "Writes tokens of a list", one_row = true,
  params = { tokens = { type = "integers", min = 0, max = 40, help = "what is written, over and over" } },
  run = function(ctx)
    local tokens, n = ctx.params.tokens or { 5, 6 }, 0
    while not ctx:done() do
      ctx:forward()
      ctx:append(tokens[n % #tokens + 1])
      n = n + 1
    end
  end,
}
