-- patchscope.lua - Ghandeharioun et al., "Patchscopes: A Unifying Framework for Inspecting Hidden Representations of Language
-- Models" (2024): the state of another text's last token is put into the place of the prompt's last one, maybe in another
-- layer, and the model says in words what it sees there.
return cadenza.strategy {
  id = "org.example.patchscope", version = "1.0.0", one_row = true, greedy = true,
  params = {
    source = { "river (noun): a", "the text whose last state is looked at" },
    layer  = { 3, 1, 1000, "what leaves this layer is taken, counted from 1", integer = true },
    into   = { 3, 1, 1000, "and what leaves this one replaced", integer = true },
  },
  run = function(ctx)
    local p, row = ctx.params, ctx:seq_of_row()
    ctx:keep_hidden("last", { p.layer })
    ctx:seq_forward({ ctx:seq_new():append(ctx:encode(p.source)) }, "last")
    local state = ctx:hidden_states()[1][1]
    ctx:keep_hidden("last", {})
    row:steer { { layer = p.into - 1, op = "replace", vector = state, from = row:length(), to = row:length() } }
    while not ctx:done() do ctx:append((ctx:argmax(ctx:process(ctx:forward()), 1))) end
  end,
}
