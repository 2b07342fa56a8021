-- It says that its caches stay small, is let in for that, and takes nothing out of them.
return cadenza.strategy {
  id = "bad.plugin", version = "1.0.0", summary = "Says that it drops", one_row = true, greedy = true, drops = true,
  params = { window = { 8, 1, 1000, "tokens that are said to stay", integer = true } },
  run = function(ctx)
    while not ctx:done() do ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))) end
  end,
}
