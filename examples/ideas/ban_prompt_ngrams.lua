-- ban_prompt_ngrams.lua - no n-gram of the prompt comes again.
return cadenza.processor {
  id = "org.example.ban-prompt-ngrams", version = "1.0.0",
  params = { n = { 3, 1, 64, "tokens of an n-gram", integer = true } },
  apply = function(p, ids, row, ctx) row:ngram_ban(ids, p.n, ctx.prompts[ctx:prompt_of()]) end,
}
