-- logit_bias.lua - favour or disfavour texts: OpenAI's logit_bias with strings for ids, as llama.cpp's server takes them.
--
-- A text becomes the tokens it is encoded as. "tokens": each of them gets the bias, always. "sequence": the last one gets
-- it where the others stand before it, as transformers' sequence_bias does. Biases of one token add up.
local function begin(ctx)
  local p, state = ctx.params, { ids = {}, biases = {}, sequences = {} }
  for i, text in ipairs(p.texts) do
    local ids = ctx:encode(text)
    if #ids == 0 then error("texts: text " .. i .. " has no tokens") end
    if p.mode == "sequence" then
      state.sequences[#state.sequences + 1] = { ids, p.biases[i] }
    else
      for _, id in ipairs(ids) do
        state.ids[#state.ids + 1] = id
        state.biases[#state.biases + 1] = p.biases[i]
      end
    end
  end
  return state
end

return cadenza.processor {
  id = "logit_bias", version = "1.0.0",
  summary = "Make given texts more or less likely",
  params = {
    texts  = { type = "strings", help = "texts; a word usually begins with a space" },
    biases = { type = "numbers", min = -1e6, max = 1e6, help = "what is added to the scores, one number for each text" },
    mode   = { "tokens", "which tokens of a text get the bias", words = { "tokens", "sequence" } },
  },
  create = function(p)
    local texts, biases = #(p.texts or {}), #(p.biases or {})
    if texts == 0 or texts ~= biases then
      error("needs as many biases as texts, and one at least; there are " .. texts .. " texts and " .. biases .. " biases")
    end
  end,
  begin = begin,
  apply = function(p, ids, row, ctx)
    local state = ctx.state
    if p.mode == "sequence" then
      row:sequence_bias(state.sequences, ids)
    else
      for i, id in ipairs(state.ids) do row[id] = row[id] + state.biases[i] end
    end
  end,
}
