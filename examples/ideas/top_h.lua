-- top_h.lua - Baghaei Potraghloo et al., "Top-H Decoding: Adapting the Creativity and Coherence with Bounded Entropy in Text
-- Generation" (2025): the likeliest tokens, as many as there may be with the entropy of what is left at most alpha times that
-- of all.
return cadenza.processor {
  id = "org.example.top-h", version = "1.0.0", sampling_only = true,
  params = { alpha = { 0.4, 0, 1, "share of the entropy that may stay" }, most = { 500, 1, 4096, "tokens at most", integer = true } },
  apply = function(p, _, row, ctx)
    local bound = p.alpha * row:entropy()
    local ids, probs = row:copy():softmax():topk(math.min(p.most, ctx.n_vocab))
    local kept, mass, h = { ids[1] }, probs[1], -probs[1] * math.log(probs[1])
    for i = 2, #ids do
      if probs[i] <= 0 then break end
      mass, h = mass + probs[i], h - probs[i] * math.log(probs[i])
      if math.log(mass) + h / mass > bound then break end   -- the entropy of probs / mass
      kept[i] = ids[i]
    end
    row:mask_except(kept)
  end,
}
