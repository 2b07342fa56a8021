-- jacobi.lua - greedy decoding by Jacobi's iteration, as in Kou et al., "CLLMs: Consistency Large Language Models" (2024), after
-- Santilli et al. (2023): a block of guesses is read in one pass, what the model says of each place is the next guess, and what
-- does not change any more is certain. The tokens are those of greedy decoding; a model trained for it needs fewer passes.
return cadenza.strategy {
  id = "org.example.jacobi", version = "1.0.0", one_row = true, greedy = true,
  params = { block = { 6, 1, 64, "guesses", integer = true } },
  run = function(ctx)
    local ids, passes, guess = ctx:input_ids():totable(), 0, {}
    local last = table.remove(ids)
    local seq = ctx:seq_new()
    if #ids > 0 then ctx:seq_forward({ seq:append(ids) }, "none") end
    while not ctx:done() do
      local known = #seq
      for i = #guess + 1, ctx.params.block do guess[i] = guess[i - 1] or last end
      local scores = ctx:seq_forward({ seq:append(last):append(guess) }, "all")
      local said, right = {}, 1
      passes = passes + 1
      for i = 1, #guess + 1 do said[i] = scores:row(i):argmax() end
      while right <= #guess and guess[right] == said[right] do right = right + 1 end
      seq:truncate(known + right)
      last, guess = said[right], table.move(said, right + 1, #said, 1, {})
      ctx:append_chunk(1, table.move(said, 1, right, 1, {}))
    end
    ctx:result("passes", { passes }, "int64")
  end,
}
