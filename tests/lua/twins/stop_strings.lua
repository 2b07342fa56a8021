-- stop_strings.lua - stop when a text appears: when it lies in the joined texts of the last tokens with its last character
-- inside the newest one. As many tokens are looked at as the longest of the texts has characters.

-- Does `text` hold s, or a beginning of it hold the end of s, so that s ends after e bytes of text? Then how many bytes of
-- s must lie before.
local function ends_at(s, text, e)
  local n = math.min(e, #s)
  if text:sub(e - n + 1, e) == s:sub(#s - n + 1) then return #s - n end
end

local function can_end(s, token)
  if s == "" then return utf8.len(token) ~= nil and utf8.len(token) > 1 end
  for e = 1, #token do
    if ends_at(s, token, e) then return true end
  end
end

-- Do the tokens before the newest, at most n of them, end in the first `left` bytes of s?
local function preceded(ctx, ids, n, s, left)
  local back = 1
  while left > 0 do
    if back > n or back >= #ids - ctx.state.from then return false end
    local token = ctx:token_text(ids[#ids - back])
    local used = token and math.min(#token, left)
    if not token or token:sub(#token - used + 1) ~= s:sub(left - used + 1, left) then return false end
    left, back = left - used, back + 1
  end
  return true
end

local function stops_at(ctx, ids, s)
  if s == "" then return true end
  local newest = ctx:token_text(ids[#ids]) or ""
  for e = 1, #newest do
    local left = ends_at(s, newest, e)
    if left and preceded(ctx, ids, ctx.state.window - 1, s, left) then return true end
  end
end

-- The same in the row's new text, where a character that several tokens spell is whole; the newest may have completed one.
local function text_stops(ctx, ids, s)
  local newest = #(ctx:token_text(ids[#ids]) or "")
  if not ctx.state.by_text or newest == 0 or not s:find("[\x80-\xFF]") then return end
  local text = ctx:text_tail(#s + newest)
  for e = math.max(#s, #text - newest), #text do
    if text:sub(e - #s + 1, e) == s then return true end
  end
end

return cadenza.criterion {
  id = "stop_strings", version = "1.0.0",
  params = {
    stop_strings = { type = "strings", generation = true, help = "texts that end a row" },
    in_prompt = { true, help = "a text may begin in the prompt" },
  },
  create = function(p)
    if p.stop_strings and #p.stop_strings == 0 then error("stop_strings is empty; expected a text or a list of texts", 0) end
  end,
  idle = function(p) return not p.stop_strings end,
  begin = function(ctx)
    local window, possible, parts = 0, false, false
    for _, s in ipairs(ctx.params.stop_strings) do
      local _, tails = s:gsub("[\x80-\xBF]", "")
      window = math.max(window, #s - tails)
      for id = 0, ctx.n_vocab - 1 do
        local text = not (possible and (parts or tails == 0)) and ctx:token_text(id)
        possible = possible or (text and can_end(s, text))
        parts = parts or (text and tails > 0 and text:find("\u{FFFD}", 1, true))
      end
    end
    local by_text = parts and not ctx:config("quirks") and true or false
    if not possible and not by_text then error("no token of this model can end any of them") end
    return { window = window, by_text = by_text, from = ctx.params.in_prompt and 0 or ctx.prompt_len }
  end,
  test = function(p, ids, ctx)
    if #ids <= ctx.state.from then return end
    for _, s in ipairs(p.stop_strings) do
      if stops_at(ctx, ids, s) or text_stops(ctx, ids, s) then return "string", s end
    end
  end,
}
