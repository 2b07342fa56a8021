-- banned_strings.lua - greedy decoding or sampling in which given texts do not appear: where one does, the loop goes back to
-- the token it began with, bans that token there, and goes another way.
--
-- As koboldcpp (1.76, "phrase banning"), ExLlamaV2 (banned_strings) and Sam Paech's antislop-sampler (2024) do it. Other
-- than a mask of token sequences it meets every spelling, and leaves the same tokens alone elsewhere.

local function lower(text, p) return p.ignore_case and text:lower() or text end

-- The first banned text that ends in the newest token: how many tokens back its first byte lies (1: the newest).
local function tokens_back(p, banned, pieces)
  local newest, text = pieces[#pieces], nil
  if newest == "" then return nil end
  text = lower(table.concat(pieces, "", math.max(1, #pieces - p.longest)), p)
  local begin_of_newest, back = #text - #newest + 1, nil
  for _, phrase in ipairs(banned) do
    local from = math.max(1, begin_of_newest - #phrase + 1)
    local at = text:find(phrase, from, true)
    if at then
      local n, left = 1, #text - #newest
      while left >= at do
        left = left - #pieces[#pieces - n]
        n = n + 1
      end
      back = math.max(back or 0, n)
    end
  end
  return back
end

-- Scores of the next token, without the bans of this place. False: nothing is left.
local function scores_of(ctx, bans)
  local scores = ctx:process(ctx:forward())
  for token in pairs(bans or {}) do ctx:ban(scores, 1, token) end
  return scores, scores:row(1):max() > -math.huge
end

local function choose(ctx, scores)
  if not ctx.do_sample then return (ctx:argmax(scores, 1)) end
  return ctx:multinomial(ctx:softmax(scores))[1]
end

local function run(ctx)
  local p, banned, bans, pieces, rewound = ctx.params, {}, {}, {}, 0
  for i, phrase in ipairs(p.banned) do banned[i] = lower(phrase, p) end
  while not ctx:done() do
    local at = #pieces + 1
    local scores, possible = scores_of(ctx, bans[at])
    if not possible then
      bans[at], rewound = nil, p.rewinds     -- every way is banned here: give up, say so, go on
      ctx:log("no token is left after " .. #pieces .. " tokens; bans end here")
    else
      local token = choose(ctx, scores)
      ctx:append(token)
      pieces[at] = ctx:token_text(token) or ""
      local back = rewound < p.rewinds and tokens_back(p, banned, pieces)
      if back then
        local first = at - back + 1
        local ids = ctx:input_ids(1)
        bans[first] = bans[first] or {}
        bans[first][ids[#ids - back + 1]] = true
        for i = first + 1, at do bans[i] = nil end
        for i = first, at do pieces[i] = nil end
        ctx:rewind(back)
        rewound = rewound + 1
      end
    end
  end
  ctx:result("rewinds", { rewound }, "int64")
end

return cadenza.strategy {
  id = "banned_strings", version = "1.0.0", one_row = true, rewinds = true,
  summary = "Decode without given texts, by going back where one appears",
  params = {
    banned      = { type = "strings", help = "texts that may not appear in the generated text" },
    ignore_case = { true, "ASCII letters match in either case" },
    rewinds     = { 1000, 0, 1000000, "how often it may go back; then the texts may appear", integer = true },
    longest     = { 64, 1, 4096, "tokens that a banned text may span", integer = true },
  },
  create = function(p)
    if not p.banned or #p.banned == 0 then error("needs banned = [\"some text\"]") end
    for i, phrase in ipairs(p.banned) do
      if phrase == "" then error("banned: text " .. i .. " is empty") end
    end
  end,
  run = run,
}
