-- guidance_scale.lua - away from what the model says without the prompt, or after a negative one.
local guide = vec.expr("s * (x - o) + o", { "o", "s" })

local function negative(p, row, ctx)
  local rows = p.negative_prompt_ids
  if rows and #rows > 0 then
    local i = #rows == 1 and 1 or 1 + (row - 1) // math.max(1, ctx.n_rows // #rows)
    local masks = p.negative_prompt_attention_mask
    return rows[i], masks and masks[i]
  end
  if p.negative_prompt then return ctx:encode(p.negative_prompt, true) end
end

return cadenza.processor {
  id = "guidance_scale", version = "1.0.0", needs_ids = false,
  params = {
    guidance_scale = { type = "number", optional = true, generation = true, help = "above 1: towards the prompt; below: away from it" },
    negative_prompt_ids = { type = "integer_lists", generation = true, min = 0, help = "what to steer away from: a list of ids for each prompt, or one for all" },
    negative_prompt_attention_mask = { type = "integer_lists", generation = true, min = 0, max = 1, help = "0 where negative_prompt_ids are padding" },
    negative_prompt = { type = "string", help = "the same as text, where no ids are given" },
  },
  idle = function(p) return not p.guidance_scale end,
  begin = function(ctx)
    local rows, masks = ctx.params.negative_prompt_ids, ctx.params.negative_prompt_attention_mask
    if not rows or #rows == 0 then return end
    if #rows ~= 1 and #rows ~= ctx.n_prompts and #rows ~= ctx.n_rows then
      error(("negative_prompt_ids: %d rows, expected 1 or one for each of the %d prompts"):format(#rows, ctx.n_prompts))
    end
    if masks and #masks ~= #rows then
      error(("negative_prompt_attention_mask: %d rows for %d of negative_prompt_ids"):format(#masks, #rows))
    end
  end,
  companion = function(p, row, ctx)
    if p.guidance_scale == 1 then return end
    local stays = ctx:config("quirks") and ctx.num_beams > 1
    local prefix, mask = negative(p, row, ctx)
    if prefix then return { prefix = prefix, mask = mask, from = ctx.prompt_len, stays = stays } end
    if ctx.prompt_len == 0 then error("a prompt without ids needs negative_prompt_ids") end
    return { from = ctx.prompt_len - 1, stays = stays }
  end,
  apply = function(p, ids, row, ctx)
    local other = ctx:companion_logits()
    row:log_softmax()
    if other then row:apply(guide, other:copy():log_softmax(), p.guidance_scale) end
  end,
}
