-- entropy_temperature.lua - a temperature that falls steeply where the model is sure. Zhang et al., "EDT: Improving Large Language Models' Generation by Entropy-based Dynamic Temperature Sampling"
-- (2024), equation 3: T = temperature * base^(theta / entropy), entropy in nats.
return cadenza.processor {
  id = "entropy_temperature", version = "1.0.0", needs_ids = false, keeps_argmax = true, sampling_only = true,
  summary = "A temperature that falls steeply where the model is confident",
  params = {
    temperature = { 1.0, 0, 1e6, "the greatest temperature, T0", above_min = true },
    theta       = { 0.1, 0, 100, "how much the entropy matters; 0: not at all" },
    base        = { 0.8, 0, 1, "base of the power with exponent theta / entropy", above_min = true },
    least       = { 0.01, 0, 1e6, "the temperature never falls below this", above_min = true },
  },
  apply = function(p, _, row)
    local entropy = row:entropy()
    local t = p.temperature
    if p.theta > 0 then t = t * p.base ^ (p.theta / math.max(entropy, 1e-10)) end
    row:div(math.max(t, p.least))
  end,
}
