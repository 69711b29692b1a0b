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
     "outputs have the inputs' dtype (float32, float64, bfloat16, float16), numbers equal up to "
     "rounding"},
    {"narrow_sums", "sums over many keys in bfloat16 and float16 equal rounded sums in float64"},
    {"device", "the same numbers on another device, if there is one"},
    {"determinism", "the same seed gives the same module, the same input the same output"},
    {"dropout", "dropout is on in training, repeatable from its seed, and off in evaluation"},
    {"save_and_load", "parameters and buffers hold the layer's whole state"},
    {"strides", "views and expanded tensors give what contiguous ones give"},
    {"batch", "an example's output does not depend on other examples"},
    {"members", "in an ensemble, each model's heads give what the model gives alone"},
    {"gradients", "gradients of inputs and parameters equal central differences"},
    {"second_gradients", "second derivatives equal central differences (trait second_order)"},
    {"refusals", "inputs whose trait is not declared are refused with a TraitError"},
    {"causality", "later tokens change nothing, earlier ones do"},
    {"window", "tokens beyond the window change nothing, those within do"},
    {"pair_mask", "hidden pairs change nothing, visible ones do"},
    {"padding", "padding gives the same as leaving the tokens out"},
    {"ragged", "concatenated sequences give the same as separate ones"},
    {"bias", "a bias is added to the logits"},
    {"broadcasting", "masks and biases of one row, head or example equal expanded ones"},
    {"relative_positions", "relative keys act as keys do, each at its own distance"},
    {"different_lengths", "more or fewer queries than keys, and each of them counts"},
    {"queries", "a query's output does not depend on other queries"},
    {"writing", "tokens one by one give the same as all at once (trait causal)"},
    {"different_source", "values may come from another sequence than keys"},
    {"positions", "tokens without given positions stand at 0, 1, 2, ..."},
    {"permutation", "the order of keys does not matter, the order of queries is kept"},
    {"empty_rows", "a query that sees no key gives zeros, and finite gradients"},
    {"state", "one forward pass leaves nothing behind for the next"},
    {"large_logits", "logits of +-10000 give finite outputs and gradients"},
    {"single_token", "sequences of one token work"},
    {"trace", "tracing changes nothing and records what happened"},
    {"losses", "losses that it adds are finite and have gradients"},
    {"after_step", "after_step changes parameters and buffers in place"},
    {"linear_cost", "no tensor of size Lq x Lk is made (trait linear_cost)"},
    {"inputs_unchanged", "inputs are not written to"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of datasets.
inline constexpr CheckInfo kDatasetChecks[] = {
    {"splits", "there are examples to train on, and sizes stay as they are"},
    {"description", "examples have the fields, shapes, dtypes and values that info() promises"},
    {"determinism", "the same seed gives the same dataset, the same index the same example"},
    {"augmentation", "augmentation depends only on the example's own random stream"},
    {"ownership", "writing to an example changes no other and not the dataset"},
    {"threads", "many threads get what one thread gets"},
    {"fingerprint", "the fingerprint is the same for the same data and changes with the data"},
    {"cost", "each example has a cost above 0, always the same"},
    {"collate", "an example is the same alone and in a batch"},
    {"resident", "a split in memory equals its examples"},
    {"plan", "all epochs have equally many batches, of examples that exist"},
    {"damage", "damaged copies of the data end in a DataError"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of models.
inline constexpr CheckInfo kModelChecks[] = {
    {"outputs", "outputs are finite, and as the manifest and outputs() state them"},
    {"parameters", "every parameter gets a gradient"},
    {"determinism", "the same seed gives the same model, the same batch the same output"},
    {"modes", "no random numbers in evaluation; those of training follow from the seed"},
    {"save_and_load", "parameters and buffers hold the whole state, under constant names"},
    {"batch", "an example's output does not depend on its batch, with every attention"},
    {"padding", "values in padding change nothing, with every attention"},
    {"members", "in an ensemble, each model gives what it gives alone, with every attention"},
    {"trace", "tracing changes nothing and reaches every layer"},
    {"places", "positions of tokens reach every layer, the same for the same batch"},
    {"carried", "batches that continue each other equal one long batch"},
    {"device", "the same numbers on another device, if there is one"},
    {"inputs_unchanged", "batches are not written to"},
    {"process_state", "the process stays as it is: threads, random numbers, folder, signals, ..."},
    {"memory", "each call gives back the memory that it takes"},
};

/// Of tasks.
inline constexpr CheckInfo kTaskChecks[] = {
    {"loss", "the loss is a scalar with gradients for the model, the same for the same step"},
    {"metrics", "metrics() states what is measured, each with its direction"},
    {"batches", "metrics do not depend on the size and the order of batches"},
    {"learning", "loss falls and the first metric improves on a problem that can be solved"},
    {"weights", "losses of parts, weighted by weight(), give the loss of the whole batch"},
    {"members", "losses() of an ensemble equals step() of each model"},
    {"labels", "labels out of range are refused with a DataError"},
    {"parameters", "each of the task's own parameters gets a gradient"},
    {"save_and_load", "parameters and buffers hold the task's whole state"},
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
