-- soft_prompt.lua - vectors that were trained stand before the prompt.
--
-- Lester, Al-Rfou and Constant, "The Power of Scale for Parameter-Efficient Prompt Tuning" (2021): the model stays as it is, and
-- reads n vectors in front of each prompt. They lie in soft_prompt.safetensors beside this file: the tensor `prompt_embeddings`,
-- [n, width], F32 or BF16, as PEFT writes it into adapter_model.safetensors.

local FILE <const> = "soft_prompt.safetensors"

local function refuse(...) error(FILE .. ": " .. string.format(...), 0) end

-- What the header says of the tensor, and where the data begin: header's length in 8 bytes, header, data.
local function find(bytes)
  local size = 0
  for i = 8, 1, -1 do size = size * 256 + (bytes:byte(i) or 0) end
  local entry = bytes:sub(9, 8 + size):match('"prompt_embeddings"%s*:%s*(%b{})')
  if not entry then refuse("has no tensor prompt_embeddings") end
  local from, to = entry:match('"data_offsets"%s*:%s*%[%s*(%d+)%s*,%s*(%d+)')
  local n, width = entry:match('"shape"%s*:%s*%[%s*(%d+)%s*,%s*(%d+)%s*%]')
  if not from or not n then refuse("prompt_embeddings is no matrix") end
  return entry:match('"dtype"%s*:%s*"(%w+)"'), math.tointeger(n), math.tointeger(width), bytes:sub(9 + size + from, 8 + size + to)
end

-- The vectors, as wide as the model's own.
local function read(wanted)
  local dtype, n, width, data = find(cadenza.file(FILE))
  if width ~= wanted then
    refuse("its vectors have %d numbers, the model's have %d: a soft prompt is of one model", width, wanted)
  end
  local bytes = ({ F32 = 4, BF16 = 2 })[dtype]
  if not bytes then refuse("its numbers are %s; F32 and BF16 can be read", tostring(dtype)) end
  if #data ~= n * width * bytes then refuse("prompt_embeddings has %d bytes of %d", #data, n * width * bytes) end
  local vectors = {}
  for i = 1, n do
    local row = data:sub((i - 1) * width * bytes + 1, i * width * bytes)
    if bytes == 2 then row = row:gsub("..", "\0\0%0") end      -- the upper half of a float32
    vectors[i] = vec.unpack(row)
  end
  return vectors
end

local function run(ctx)
  local seq = ctx:seq_new():append_embeds(read(ctx:facts().width))
  seq:append(ctx:input_ids(1):sub(-ctx:seq_of_row(1):length()))    -- without its pads
  while not ctx:done() do
    local scores = ctx:seq_forward({ seq }, "last")
    ctx:record("logits", scores)
    ctx:process(scores)
    ctx:record("scores", scores)
    local token = ctx.do_sample and ctx:multinomial(ctx:softmax(scores))[1] or ctx:argmax(scores, 1)
    ctx:append(token)
    seq:append({ token })
  end
end

return cadenza.strategy {
  id = "soft_prompt", version = "1.0.0", one_row = true,
  summary = "Put trained vectors before the prompt",
  run = run,
}
