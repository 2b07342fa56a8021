-- instructive.lua - Kim et al., "Instructive Decoding: Instruction-Tuned Large Language Models are Self-Refiner from Noisy
-- Instructions" (2024): logits - epsilon * what the model says behind another, noisy instruction.
return cadenza.processor {
  id = "org.example.instructive", version = "1.0.0",
  params = { noisy = { "Write nothing.", "stands in the prompt's place" }, epsilon = { 0.3, 0, 1, "how far away from it" } },
  companion = function(p, _, ctx) return { prefix = ctx:encode(p.noisy) } end,
  apply = function(p, _, row, ctx) row:axpy(-p.epsilon, ctx:companion_logits():copy()) end,
}
