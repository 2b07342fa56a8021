-- thought_switching.lua - Wang et al., "Thoughts Are All Over the Place: On the Underthinking of o1-Like LLMs" (2025): for some tokens
-- after a thought began, the words that begin another one are penalised, so that it is thought to its end.
return cadenza.processor {
  id = "org.example.thought-switching", version = "1.0.0",
  params = {
    words = { type = "strings", help = "that begin another thought; unset: Alternatively" },
    alpha = { 3, 0, 1000, "the penalty" }, beta = { 600, 0, 1000000, "tokens for which it holds", integer = true },
  },
  begin = function(ctx)
    local first, set = {}, bitset.new(ctx.n_vocab)
    for _, word in ipairs(ctx.params.words or { " Alternatively", "Alternatively" }) do first[#first + 1] = ctx:encode(word)[1] end
    return { first = first, set = set:set(first), since = 0 }
  end,
  accept = function(_, state, token) state.since = state.set:test(token) and 0 or state.since + 1 end,
  apply = function(p, _, row, ctx)
    if ctx.state.since < p.beta then row:sub(ctx.state.first, p.alpha) end
  end,
}
