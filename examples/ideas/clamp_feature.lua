-- clamp_feature.lua - Templeton et al., "Scaling Monosemanticity" (2024): a feature of the states is held at what it may have at
-- most; here the feature is the direction between two texts. Where a token's state has more of it, the excess is taken out, and
-- all other tokens stay as they are: no edit that is data can say so.
return cadenza.strategy {
  id = "org.example.clamp-feature", version = "1.0.0", one_row = true, greedy = true,
  params = {
    toward = { "a small dog", "a text that has it" }, away = { "a large river", "and one that does not" },
    layer  = { 3, 0, 1000, "where it is looked for", integer = true },
    most   = { 0.5, -1000, 1000, "of the way from the second text to the first" },
  },
  on_hidden = function(ctx, row, layer, h)
    local direction = h.vector
    local square = direction:dot(direction)
    for i = 1, #h do
      local excess = h[i]:dot(direction) / square - h.scale
      if excess > 0 then h[i]:axpy(-excess, direction) end
    end
  end,
  run = function(ctx)
    local p = ctx.params
    local function state(text)
      ctx:keep_hidden("last", { p.layer + 1 })
      ctx:seq_forward({ ctx:seq_new():append(ctx:encode(text)) }, "last")
      return ctx:hidden_states()[1][1]
    end
    local direction = state(p.toward):sub(state(p.away))
    local square, most = direction:dot(direction), -math.huge
    ctx:seq_of_row():steer { { layer = p.layer, op = "call", scale = p.most, vector = direction } }
    while not ctx:done() do
      local token = ctx:argmax(ctx:process(ctx:forward()), 1)
      most = math.max(most, ctx:hidden_states()[1][1]:dot(direction) / square)
      ctx:append(token)
    end
    ctx:result("most_of_it", { most }, "float32")
  end,
}
