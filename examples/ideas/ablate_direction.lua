-- ablate_direction.lua - Arditi et al., "Refusal in Language Models Is Mediated by a Single Direction" (2024): the difference of the
-- mean states behind two sets of texts is a direction; taken out of all that is written into the stream, the model cannot say
-- it any more.
return cadenza.strategy {
  id = "org.example.ablate-direction", version = "1.0.0", one_row = true, greedy = true,
  params = {
    with    = { type = "strings", help = "texts that have it" },
    without = { type = "strings", help = "texts that do not" },
    layer   = { 3, 1, 1000, "whose states are compared", integer = true },
    off     = { false, "leave the model as it is" },
  },
  run = function(ctx)
    local p, n_layers = ctx.params, ctx:facts().n_layers
    local function mean(texts)
      local sum = vec.new(ctx:facts().width)
      for _, text in ipairs(texts) do
        ctx:keep_hidden("last", { p.layer })
        ctx:seq_forward({ ctx:seq_new():append(ctx:encode(text)) }, "last")
        sum:add(ctx:hidden_states()[1][1])
      end
      return sum:div(#texts)
    end
    if not p.with or not p.without then error("needs texts with and without what is to go") end
    local direction = mean(p.with):sub(mean(p.without))
    direction:div(direction:norm())
    local edits = { { layer = 0, place = "embedding", op = "project_out", vector = direction } }
    for layer = 0, n_layers - 1 do
      for _, place in ipairs { "attention", "mlp" } do
        edits[#edits + 1] = { layer = layer, place = place, op = "project_out", vector = direction }
      end
    end
    if not p.off then ctx:seq_of_row():steer(edits) end
    ctx:keep_hidden("last", { p.layer })
    local most = 0
    while not ctx:done() do
      local token = ctx:argmax(ctx:process(ctx:forward()), 1)
      most = math.max(most, math.abs(ctx:hidden_states()[1][1]:dot(direction)))
      ctx:append(token)
    end
    ctx:result("most_along", { most }, "float32")
  end,
}
