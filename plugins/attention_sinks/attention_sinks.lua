-- attention_sinks.lua - decodes without end in constant memory: the first tokens and a window of the newest ones stay in the cache.
--
-- Xiao et al., "Efficient Streaming Language Models with Attention Sinks" (StreamingLLM, 2023): a window alone breaks a model as
-- soon as the first tokens leave it, since attention has nowhere to go; with a few of them kept the model goes on. Positions are
-- counted within the cache, so that none lies beyond what the model was trained for.

return cadenza.strategy {
  id = "attention_sinks", version = "1.0.0", one_row = true, drops = true,
  summary = "Decode without end in constant memory: the first tokens and a window of the newest stay",
  params = {
    sinks    = { 4, 0, 1000000, "first tokens that stay", integer = true },
    window   = { 1020, 1, 1000000000, "newest tokens that stay", integer = true },
    slack    = { 64, 1, 1000000000, "tokens by which the window grows before it is cut", integer = true },
    renumber = { true, "positions count within the cache; false: they are those of the text" },
  },
  run = function(ctx)
    local p, row, draws, gone, cuts = ctx.params, ctx:seq_of_row(), ctx:config("do_sample"), 0, 0
    while not ctx:done() do
      local scores = ctx:process(ctx:forward())
      local n, keep = row:length(), p.sinks + p.window
      if n - gone >= keep + p.slack then
        row:drop(p.sinks + 1, n - p.window, { renumber = p.renumber })
        gone, cuts = n - keep, cuts + 1
      end
      if draws then ctx:append(ctx:multinomial(ctx:softmax(scores))) else ctx:append((ctx:argmax(scores, 1))) end
    end
    ctx:result("dropped", gone)
    ctx:result("cuts", cuts)
  end,
}
