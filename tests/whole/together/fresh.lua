-- fresh.lua - a stateful processor: each use of a token makes it less likely, uses long past count less.
return cadenza.processor {
  id = "test.fresh", version = "1.0.0",
  params = { strength = { 0.8, 0, 100, "taken from the score of a token just used" },
             decay    = { 0.9, 0, 1, "what is left of that after each token" } },
  begin = function(ctx) return { weights = {} } end,
  accept = function(p, state, token, ctx)
    for id, weight in pairs(state.weights) do state.weights[id] = weight * p.decay end
    state.weights[token] = (state.weights[token] or 0) + p.strength
  end,
  apply = function(p, ids, row, ctx)
    for id, weight in pairs(ctx.state.weights) do row[id] = row[id] - weight end
  end,
}
