-- entropy_exit.lua - the token is what the first layer says that is sure: whose next-token entropy, by the final norm and the
-- head, is below a threshold. What an early exit would do; the layers above are computed all the same.
return cadenza.strategy {
  id = "org.example.entropy-exit", version = "1.0.0", one_row = true, greedy = true,
  params = { below = { 1, 0, 100, "entropy, natural logarithm" } },
  run = function(ctx)
    local last, layers, exits = ctx:facts().n_layers, {}, {}
    for layer = 1, last - 1 do layers[layer] = layer end
    ctx:keep_hidden("last", layers)
    while not ctx:done() do
      local scores, exit, hidden = ctx:process(ctx:forward()), last, {}
      local token = scores:row(1):argmax()
      for i, rows in ipairs(ctx:hidden_states()) do hidden[i] = rows[1] end
      for layer, said in ipairs(ctx:lens(hidden)) do
        if said:entropy() < ctx.params.below then exit, token = layer, said:argmax() break end
      end
      exits[#exits + 1] = exit
      ctx:append(token)
    end
    ctx:result("exits", exits, "int64")
  end,
}
