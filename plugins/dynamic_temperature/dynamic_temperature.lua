-- dynamic_temperature.lua - a temperature that follows the entropy: near `low` where the model is sure, near `high` where it
-- is not. kalomaze, koboldcpp and text-generation-webui (2023): low + (high - low) * (entropy / greatest entropy)^exponent,
-- the greatest being that of as many tokens as are not masked.
return cadenza.processor {
  id = "dynamic_temperature", version = "1.0.0", needs_ids = false, keeps_argmax = true, sampling_only = true,
  summary = "A temperature that follows the entropy",
  params = {
    low      = { 0.5, 0, 1e6, "temperature where one token is certain", above_min = true },
    high     = { 1.5, 0, 1e6, "temperature where all tokens are alike", above_min = true },
    exponent = { 1.0, 0, 100, "curve between the two; above 1 it stays low for longer" },
  },
  create = function(p)
    if p.low > p.high then error("low = " .. p.low .. " is above high = " .. p.high) end
  end,
  apply = function(p, _, row)
    local most = math.log(row:count_above(-math.huge))
    if most > 0 then
      local share = row:entropy() / most
      row:div(p.low + (p.high - p.low) * share ^ p.exponent)
    end
  end,
}
