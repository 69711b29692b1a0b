// The names of the conformance kit's checks, for programs that do not link LibTorch. What each does
// in detail: docs/conformance.md.
#pragma once

#include <span>
#include <string_view>

#include "framework/manifest/manifest_writer.h"

namespace attnlab::conformance {

struct CheckInfo {
  std::string_view name;
  std::string_view about;  ///< one line
};

/// Of attentions, in the order in which they run: what everything else rests on comes first.
inline constexpr CheckInfo kChecks[] = {
    {"shapes", "outputs are [B, H, Lq, Dv]; any number of examples, heads and tokens"},
    {"dtypes",
     "float32, float64, bfloat16 and float16 in, the same out, the same numbers up to rounding"},
    {"narrow_sums", "sums over many keys in bfloat16 and float16 are those of float64, rounded"},
    {"device", "the same numbers on another device, where there is one"},
    {"determinism", "one seed gives one module, one input one output"},
    {"dropout", "honoured in training, repeatable from its seed, absent in evaluation"},
    {"save_and_load", "parameters and buffers hold all that a layer keeps"},
    {"strides", "views and expanded tensors give what contiguous ones give"},
    {"batch", "each example gives alone what it gives among others"},
    {"members", "heads of several models side by side give what each model gives alone"},
    {"gradients", "derivatives equal central differences, inputs and parameters"},
    {"second_gradients", "derivatives of derivatives do (trait second_order)"},
    {"refusals", "inputs whose trait is not declared are refused with a TraitError"},
    {"causality", "the future changes nothing, the past does"},
    {"window", "tokens beyond the window change nothing, those within do"},
    {"pair_mask", "hidden pairs change nothing, visible ones do"},
    {"padding", "padded tokens equal absent ones"},
    {"ragged", "sequences end to end equal separate ones"},
    {"bias", "a bias is added to the logits"},
    {"broadcasting", "masks and biases of one row, head or example equal expanded ones"},
    {"relative_positions", "relative keys act as keys do, each at its own distance"},
    {"different_lengths", "more queries than keys or fewer, and each of them counts"},
    {"queries", "a query asked alone gives what it gives among others"},
    {"writing", "tokens that come one by one give what they give at once (trait causal)"},
    {"different_source", "values may come from another sequence than keys"},
    {"positions", "tokens without given positions stand at 0, 1, 2, ..."},
    {"permutation", "the order of keys does not matter, the order of queries is kept"},
    {"empty_rows", "a query that sees no key gives zeros, and finite gradients"},
    {"state", "one forward pass leaves nothing behind for the next"},
    {"large_logits", "logits of +-10000 give finite outputs and gradients"},
    {"single_token", "sequences of one token work"},
    {"trace", "tracing changes nothing and records what happened"},
    {"losses", "what it adds to the loss is finite, and its gradient flows"},
    {"after_step", "what follows an update changes parameters and buffers in place"},
    {"linear_cost", "no tensor of size Lq x Lk is made (trait linear_cost)"},
    {"inputs_unchanged", "inputs are not written to"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of datasets.
inline constexpr CheckInfo kDatasetChecks[] = {
    {"splits", "there are examples to train on, and sizes stay as they are"},
    {"description", "examples have the fields, shapes, dtypes and values that info() promises"},
    {"determinism", "one seed gives one dataset, one index one example"},
    {"augmentation", "the example's own random stream alone decides on its changes"},
    {"ownership", "writing to an example changes no other and not the dataset"},
    {"threads", "many threads get what one thread gets"},
    {"fingerprint", "it stays the same for the same data and changes with the data"},
    {"cost", "each example costs something, and always the same"},
    {"collate", "an example is the same alone and in a batch"},
    {"resident", "a split in memory holds what its examples are"},
    {"plan", "epochs are equally many batches of examples that exist"},
    {"damage", "damaged copies of the data end in a DataError"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of models.
inline constexpr CheckInfo kModelChecks[] = {
    {"outputs", "what its manifest gives, finite, and as outputs() states it"},
    {"parameters", "every parameter gets a gradient"},
    {"determinism", "one seed gives one model, one batch one output"},
    {"modes", "nothing is drawn in evaluation, and what training draws follows from its seed"},
    {"save_and_load", "parameters and buffers hold all that it keeps, under names that stay"},
    {"batch", "an example gives alone what it gives in a batch, under every attention"},
    {"padding", "what stands in padding changes nothing, under every attention"},
    {"members", "models trained as one give what each gives alone, under every attention"},
    {"trace", "tracing changes nothing and reaches every layer"},
    {"places", "places of tokens reach every layer, the same for the same batch"},
    {"carried", "batches that continue each other equal one long batch"},
    {"device", "the same numbers on another device, where there is one"},
    {"inputs_unchanged", "batches are not written to"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of tasks.
inline constexpr CheckInfo kTaskChecks[] = {
    {"loss", "a scalar with gradients for the model, the same for the same step"},
    {"metrics", "metrics() states what is measured, each with its direction"},
    {"batches", "metrics do not depend on the size and the order of batches"},
    {"learning", "loss falls and the first metric improves on a problem that can be solved"},
    {"weights", "losses of parts, by weight(), are the loss of the whole"},
    {"members", "losses() of models trained as one is step() of each"},
    {"labels", "labels out of range are refused with a DataError"},
    {"parameters", "every parameter of its own gets a gradient"},
    {"save_and_load", "parameters and buffers hold all that it keeps"},
    {"evaluation", "measuring twice gives the same and changes nothing"},
    {"inputs_unchanged", "batches are not written to"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// The checks of a kind of plugin.
constexpr std::span<const CheckInfo> checks_of(Kind kind) {
  if (kind == Kind::attention) return kChecks;
  if (kind == Kind::dataset) return kDatasetChecks;
  if (kind == Kind::model) return kModelChecks;
  return kTaskChecks;
}

}  // namespace attnlab::conformance
