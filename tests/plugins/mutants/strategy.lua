-- strategy.lua - one sound strategy in Lua, and what can be wrong with it: BUG, set by the test before this, names what is.

return cadenza.strategy {
  id = "org.example.mutant", version = "1.0.0", summary = "Greedy decoding", greedy = true,
  rewinds = BUG == "rewinds_not", beams = BUG == "beams_greedy",
  run = function(ctx)
    local taken = 0
    while not ctx:done() do
      local scores = ctx:forward()
      ctx:process(scores)
      local tokens = ctx:argmax(scores)
      if BUG == "loses_a_row" and ctx.n_rows > 2 then tokens[3] = tokens[1] end
      if BUG == "late_nil" and taken == 60 then local x = taken + nil end
      if BUG == "draws" then ctx:uniform() end
      ctx:append(tokens)
      if BUG == "rewinds_undeclared" and taken == 9 then ctx:rewind(1, 1) end
      taken = taken + 1
      if BUG == "wrong_reason" and taken == 30 then
        for r = 1, ctx.n_rows do ctx:finish(r, "eos") end
      end
    end
  end,
}
