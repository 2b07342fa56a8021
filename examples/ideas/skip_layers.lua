-- skip_layers.lua - Zhang et al., "Draft & Verify: Lossless Large Language Model Acceleration via Self-Speculative Decoding" (2024):
-- the model without some of its layers drafts for the model. A layer is left out by edits that put nothing in the place of what
-- its attention and its feed-forward give; it is computed all the same, so this shows acceptance, not time.
return cadenza.strategy {
  id = "org.example.skip-layers", version = "1.0.0", one_row = true, greedy = true,
  params = { skip = { type = "integers", help = "layers, from 0; unset: the third" }, draft = { 4, 1, 64, "tokens", integer = true } },
  run = function(ctx)
    local edits, rounds, right_ones = {}, 0, 0
    for _, layer in ipairs(ctx.params.skip or { 2 }) do
      for _, place in ipairs { "attention", "mlp" } do
        edits[#edits + 1] = { layer = layer, place = place, op = "scale", scale = 0 }
      end
    end
    local model, small = ctx:seq_new():append(ctx:input_ids()), ctx:seq_new():append(ctx:input_ids())
    small:steer(edits)
    while not ctx:done() do
      local at, draft, right = #ctx:input_ids(), {}, 0
      for i = 1, ctx.params.draft do
        draft[i] = ctx:seq_forward({ small }, "last"):row(1):argmax()
        small:append(draft[i])
      end
      local scores = ctx:seq_forward({ model:append(draft) }, "all")
      local first = #scores - #draft
      while right < #draft and scores:row(first + right):argmax() == draft[right + 1] do right = right + 1 end
      local token = scores:row(first + right):argmax()
      model:truncate(at + right):append(token)
      small:truncate(at + right):append(token)
      rounds, right_ones = rounds + 1, right_ones + right
      draft[right + 1] = token
      ctx:append_chunk(1, table.move(draft, 1, right + 1, 1, {}))
    end
    ctx:result("accepted", { right_ones, rounds }, "int64")
  end,
}
