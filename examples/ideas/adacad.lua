-- adacad.lua - Wang et al., "AdaCAD: Adaptively Decoding to Balance Conflicts between Contextual and Parametric Knowledge" (2024):
-- (1 + a) * logits with a context - a * logits without it (Shi et al. 2023), where a is how far the two distributions lie
-- apart: their Jensen-Shannon divergence in bits, from 0 to 1.
return cadenza.processor {
  id = "org.example.adacad", version = "1.0.0",
  params = { evidence = { "", "the context: a text that the prompt begins with" } },
  companion = function(p, _, ctx) return { from = #ctx:encode(p.evidence) } end,
  apply = function(_, _, row, ctx)
    local without = ctx:companion_logits():copy():log_softmax()
    row:log_softmax()
    local p, q = row:copy():exp(), without:copy():exp()
    local m = p:copy():add(q):mul(0.5)
    local a = (p:kl(m) + q:kl(m)) / 2 / math.log(2)
    row:mul(1 + a):axpy(-a, without)
  end,
}
