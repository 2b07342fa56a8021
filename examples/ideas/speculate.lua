-- speculate.lua - greedy speculative decoding by hand: the assistant writes a few tokens, the model reads them in one pass and
-- keeps those that it would have written, and one of its own.
return cadenza.strategy {
  id = "org.example.speculate", version = "1.0.0", one_row = true, greedy = true,
  params = { draft = { 4, 1, 64, "tokens of a draft", integer = true } },
  run = function(ctx)
    local model, small = ctx:seq_new():append(ctx:input_ids()), ctx:seq_new("assistant"):append(ctx:input_ids())
    local passes = 0
    while not ctx:done() do
      local at, draft = #ctx:input_ids(), {}
      for i = 1, ctx.params.draft do
        draft[i] = ctx:seq_forward({ small }, "last"):row(1):argmax()
        small:append(draft[i])
      end
      local scores = ctx:seq_forward({ model:append(draft) }, "all")
      local first = #scores - #draft                     -- the row behind the newest token that is certain
      passes = passes + 1
      local right = 0
      while right < #draft and scores:row(first + right):argmax() == draft[right + 1] do right = right + 1 end
      local taken = table.move(draft, 1, right, 1, {})
      taken[right + 1] = scores:row(first + right):argmax()
      model:truncate(at + right):append(taken[right + 1])
      small:truncate(at + math.min(right, #draft - 1))   -- it has not read its last token yet
      if right == #draft then small:append(draft[#draft]) end
      small:append(taken[right + 1])
      ctx:append_chunk(1, taken)
    end
    ctx:result("passes", { passes }, "int64")
  end,
}
